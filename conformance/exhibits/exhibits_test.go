package exhibits_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
)

// The wire itself is sound: what the exhibits fail by is what is broken in them.
func TestWire(t *testing.T) {
	t.Parallel()
	w := exhibits.NewWire()
	conformance.Test(t, w.Config(w.Open))
}

// Every broken lock fails the cases that are made for it, and these say why.
func TestExhibitsAreCaught(t *testing.T) {
	t.Parallel()
	byID := make(map[string]conformance.Case)
	for _, c := range conformance.Cases() {
		byID[c.ID()] = c
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
			require.NotEmpty(t, x.Is)
			require.NotEmpty(t, x.CaughtBy)
			for _, id := range x.CaughtBy {
				require.Contains(t, byID, id)
			}
			require.Empty(t, reports[i].Error)
			for _, res := range reports[i].Results {
				t.Logf("VERDICT exhibit %s | %s | %s", x.Name, res.ID(), res.Outcome)
				require.Equal(t, conformance.Fail, res.Outcome, "%s does not catch a lock of which this is true: %s (%s)",
					res.ID(), x.Is, res.Reason)
				require.Contains(t, res.Message(), byID[res.ID()].Rule)
				require.Contains(t, res.Message(), x.Sees)
			}
		})
	}
}

// The client has other ways with a backend that is a driver.Backend and nothing more: they are sound too.
func TestPlainWire(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: takes half a minute")
	}
	groups := []string{"exclusion", "silence", "loss", "giving-up", "liveness", "cost", "close"}
	w := exhibits.NewWire()
	cfg := w.Config(w.OpenPlain)
	report := conformance.Run(t.Context(), cfg, conformance.Match(func(c conformance.Case) bool {
		return slices.Contains(groups, c.Group)
	}))
	require.Empty(t, report.Error)
	for _, res := range report.Results {
		require.NotEqual(t, conformance.Fail, res.Outcome, "%s: %s", res.ID(), res.Message())
	}
}

// Where nobody is told of a removal but by a renewal, that of a batch is told to those whom it concerns.
func TestUntoldWire(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: takes some TTLs")
	}
	w := exhibits.NewWire()
	report := conformance.Run(t.Context(), w.Config(w.OpenUntold), conformance.Match(func(c conformance.Case) bool { return c.Group == "loss" }))
	require.Empty(t, report.Error)
	require.Positive(t, report.Passed)
	for _, res := range report.Results {
		require.NotEqual(t, conformance.Fail, res.Outcome, "%s: %s", res.ID(), res.Message())
	}
}
