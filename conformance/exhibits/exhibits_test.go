package exhibits_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
)

// Every broken lock fails the cases that are made for it, and these say why. The conformance test of backend/memory/memorytest holds that
// the lock of which they are made passes the suite.
func TestExhibitsAreCaught(t *testing.T) {
	t.Parallel()
	rules := make(map[string]string)
	for _, c := range conformance.Cases() {
		rules[c.ID()] = c.Rule
	}
	// They mostly wait for time to pass, so more run at once than there are processors.
	all := exhibits.All()
	reports := make([]conformance.Report, len(all))
	lanes := make(chan struct{}, 8)
	var done sync.WaitGroup
	for i, x := range all {
		lanes <- struct{}{}
		done.Go(func() {
			defer func() { <-lanes }()
			reports[i] = conformance.Run(t.Context(), x.Config(), conformance.Match(func(c conformance.Case) bool {
				return slices.Contains(x.CaughtBy, c.ID()) && (c.Quick || !testing.Short())
			}))
		})
	}
	done.Wait()
	for i, x := range all {
		t.Run(x.Name, func(t *testing.T) {
			require.NotEmpty(t, x.CaughtBy)
			for _, id := range x.CaughtBy {
				require.Contains(t, rules, id)
			}
			require.Empty(t, reports[i].Error)
			for _, res := range reports[i].Results {
				t.Logf("VERDICT exhibit %s | %s | %s", x.Name, res.ID(), res.Outcome)
				require.Equal(t, conformance.Fail, res.Outcome, "%s does not catch a lock of which this is true: %s (%s)",
					res.ID(), x.Is, res.Reason)
				require.Contains(t, res.Message(), rules[res.ID()])
				require.Contains(t, res.Message(), x.Sees)
			}
		})
	}
}

// The client treats a backend differently if it is only a driver.Backend, or if nobody tells it of a removal. These are sound too.
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
