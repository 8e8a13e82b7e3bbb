package environment

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Need starts the environment called name for t: see [Environment.Need].
func Need(t testing.TB, name string) *Running {
	t.Helper()
	e, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return e.Need(t)
}

// Need starts the servers for t and ends them with t. Servers that are not installed skip or fail t by the rules of package servers.
func (e *Environment) Need(t testing.TB) *Running {
	t.Helper()
	return servers.Need(t, e.Title, func() (*Running, error) { return e.Open(context.Background()) }, e.Needs...)
}

// full says that every case is played on every environment: make soak sets this variable.
var full = os.Getenv("LOCKPORT_TEST_FULL") != ""

// OnlyInSoak skips t unless every case is played on every environment.
func OnlyInSoak(t testing.TB) {
	t.Helper()
	if !full {
		t.Skip("not run: set LOCKPORT_TEST_FULL, as make soak does")
	}
}

// Breakable selects the cases that a variant of an environment can break although they hold in the environment itself: how the servers are
// found, which of them is asked, and what they do alone. docs/testing.md says where it is used. more names further groups: "names", "optional" and "close", for
// instance, where the variant is not only other servers. In a soak it selects every case.
func Breakable(more ...string) conformance.RunOption {
	groups := append([]string{"contract", "fencing", "removal", "waiting"}, more...)
	cases := []string{"exclusion/two-backends", "exclusion/processes", "crash/holder", "cost/held-locks", "liveness/server-restarted"}
	return conformance.Match(func(c conformance.Case) bool {
		return full || slices.Contains(groups, c.Group) || slices.Contains(cases, c.ID())
	})
}
