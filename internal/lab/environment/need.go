package environment

import (
	"context"
	"testing"

	"github.com/lockport/lockport/internal/lab/servers"
)

// Need starts the environment called name for t and ends it with t. Servers that are not installed skip or fail t by the rules of package servers.
func Need(t testing.TB, name string) *Running {
	t.Helper()
	e, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() && !e.Local {
		t.Skip("not run: needs " + e.Title + ", which -short does without")
	}
	r, err := e.Open(context.Background())
	servers.NeedInstalled(t, err, e.Needs...)
	t.Cleanup(func() {
		if log := r.Log(); t.Failed() && log != "" {
			t.Logf("%s said last:\n%s", e.Title, log)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}
