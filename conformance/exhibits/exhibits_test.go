package exhibits_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
)

// Every broken lock fails the cases in CaughtBy, with its reason. The conformance test of backend/memory/memorytest shows that the
// sound lock passes the suite.
func TestExhibitsAreCaught(t *testing.T) {
	t.Parallel()
	isFull := make(map[string]bool)
	for _, c := range conformance.Cases() {
		isFull[c.ID()] = !c.Quick
	}
	var trials []exhibits.Trial
	for _, x := range exhibits.All() {
		ids := slices.Clone(x.CaughtBy)
		if testing.Short() {
			if ids = slices.DeleteFunc(ids, func(id string) bool { return isFull[id] }); len(ids) == 0 {
				continue
			}
		}
		trials = append(trials, exhibits.Trial{Kind: "exhibit", Name: x.Name, Is: x.Is, Config: x.Config(), Cases: ids, Want: conformance.Fail, Sees: []string{x.Sees}})
	}
	exhibits.Try(t, trials...)
}

// The client treats a backend differently if it lacks the optional interfaces, or does not report removals. These are sound too.
func TestOtherSoundLocks(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: takes half a minute")
	}
	for name, sound := range map[string]struct {
		config conformance.Config
		groups []string
	}{
		"plain":  {exhibits.Plain(), []string{"exclusion", "silence", "loss", "giving-up", "liveness", "cost", "close"}},
		"untold": {exhibits.Untold(), []string{"loss"}},
	} {
		t.Run(name, func(t *testing.T) {
			report := conformance.Run(t.Context(), sound.config, conformance.Match(func(c conformance.Case) bool {
				return slices.Contains(sound.groups, c.Group)
			}))
			require.Empty(t, report.Error)
			require.Positive(t, report.Passed)
			for _, res := range report.Results {
				require.NotEqual(t, conformance.Fail, res.Outcome, "%s: %s", res.ID(), res.Message())
			}
		})
	}
}
