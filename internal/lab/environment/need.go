package environment

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Need starts the environment called name: see [Environment.Need].
func Need(t testing.TB, name string) *Running {
	t.Helper()
	e, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return e.Need(t)
}

// Need starts the servers for t and closes them when t ends. If servers are not installed, it skips or fails t by the rules of package servers.
func (e *Environment) Need(t testing.TB) *Running {
	t.Helper()
	return servers.Need(t, e.Title, e.Local, func() (*Running, error) { return e.Open(context.Background()) })
}

// full says that every environment runs every case: make soak sets this variable.
var full = os.Getenv("LOCKPORT_TEST_FULL") != ""

// OnlyInSoak skips t unless every environment runs every case.
func OnlyInSoak(t testing.TB) {
	t.Helper()
	if !full {
		t.Skip("runs in soaks alone: set LOCKPORT_TEST_FULL, as make soak does")
	}
}

// Breakable selects the cases that a variant of an environment can break although the environment itself passes them. They depend on how servers
// are found, on which server is asked, and on what servers do on their own. docs/testing.md says where it is used. more names additional groups,
// such as "names", "optional" and "close", for a variant that differs in more than its servers. In a soak it selects every case.
func Breakable(more ...string) conformance.RunOption {
	groups := append([]string{"contract", "fencing", "removal", "waiting"}, more...)
	cases := []string{"exclusion/two-backends", "exclusion/processes", "crash/holder", "crash/waiter", "cost/held-locks", "liveness/server-restarted"}
	return conformance.Match(func(c conformance.Case) bool {
		return full || slices.Contains(groups, c.Group) || slices.Contains(cases, c.ID())
	})
}
