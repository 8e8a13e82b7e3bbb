package environment

import (
	"os"
	"slices"

	"github.com/lockport/lockport/conformance"
)

// FullMatrix is the variable that makes the conformance tests run every case on every environment. make soak sets it.
const FullMatrix = "LOCKPORT_TEST_FULL"

// Breakable selects the cases that a variant of an environment can break although they hold in the environment itself: how the servers are
// found, which of them is asked, and what they do alone. docs/testing.md lists them. more names further groups.
func Breakable(more ...string) conformance.RunOption {
	groups := append([]string{"contract", "fencing", "removal", "waiting", "names", "optional", "close"}, more...)
	cases := []string{"exclusion/two-backends", "exclusion/processes", "crash/holder", "cost/held-locks", "liveness/server-restarted"}
	return conformance.Match(func(c conformance.Case) bool {
		return os.Getenv(FullMatrix) != "" || slices.Contains(groups, c.Group) || slices.Contains(cases, c.ID())
	})
}
