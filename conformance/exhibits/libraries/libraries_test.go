package libraries_test

import (
	"context"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits/libraries"
	"github.com/lockport/lockport/driver"
)

// Each bug of somebody's lock, on a real server, fails the cases that it is said to fail, and these say why. The same lock without the bug passes
// them, there and then.
func TestLibraries(t *testing.T) {
	rules := make(map[string]string)
	for _, c := range conformance.Cases() {
		rules[c.ID()] = c.Rule
	}
	groups := make(map[string][]libraries.Exhibit)
	for _, x := range libraries.All() {
		require.Contains(t, worlds, x.Server, x.Name)
		group := strings.ReplaceAll(string(x.Server), " ", "-")
		if restarts(x) {
			group += "-restarted"
		}
		groups[group] = append(groups[group], x)
	}
	for group, xs := range groups {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			w := worlds[xs[0].Server](t)
			reports := runAll(t, w, xs)
			for i, x := range xs {
				t.Run(x.Name, func(t *testing.T) {
					broken, sound := reports[i][0], reports[i][1]
					require.Empty(t, broken.Error)
					require.Empty(t, sound.Error)
					require.Len(t, broken.Results, len(x.CaughtBy), "%v are not all cases", x.CaughtBy)
					for _, res := range broken.Results {
						require.Equal(t, conformance.Fail, res.Outcome, "%s does not catch a lock of which this is true: %s (%s)", res.ID(), x.Is, res.Reason)
						require.Contains(t, res.Message(), rules[res.ID()])
						require.Contains(t, res.Reason, x.Sees)
						t.Logf("%s, %v: %s", res.ID(), res.Took, res.Message())
					}
					for _, res := range sound.Results {
						require.Equal(t, conformance.Pass, res.Outcome, "%s of the lock without the bug: %s", res.ID(), res.Message())
						t.Logf("%s, without the bug: %v", res.ID(), res.Took)
					}
				})
			}
		})
	}
}

// restarts says that x needs a server that nobody else uses meanwhile.
func restarts(x libraries.Exhibit) bool {
	return slices.ContainsFunc(x.CaughtBy, func(id string) bool { return strings.HasPrefix(id, "fencing/restart") })
}

// runAll runs the cases of each of xs on the broken lock and on the sound one. They mostly wait, so several run at once.
func runAll(t *testing.T, w *world, xs []libraries.Exhibit) [][2]conformance.Report {
	reports := make([][2]conformance.Report, len(xs))
	var done sync.WaitGroup
	defer done.Wait()
	lanes := make(chan struct{}, 6)
	for i, x := range xs {
		for j, open := range []func(context.Context, string) (driver.Backend, error){x.Open, x.OpenSound} {
			cfg := w.config(t, x.Server)
			if j == 1 && w.direct != "" {
				cfg.Target = w.direct
			}
			cfg.Open, cfg.MinTTL = open, x.TTL
			run := func() {
				reports[i][j] = conformance.Run(t.Context(), cfg, conformance.Match(func(c conformance.Case) bool {
					return slices.Contains(x.CaughtBy, c.ID())
				}))
			}
			if restarts(x) {
				run()
			} else {
				lanes <- struct{}{}
				done.Go(func() { defer func() { <-lanes }(); run() })
			}
		}
	}
	return reports
}

// afterAll is closed when all of cs are.
func afterAll(cs []<-chan struct{}) <-chan struct{} {
	if len(cs) == 1 {
		return cs[0]
	}
	done := make(chan struct{})
	go func() {
		pprof.SetGoroutineLabels(context.Background()) // not the case's, by whose labels the suite looks for leaks
		for _, c := range cs {
			<-c
		}
		close(done)
	}()
	return done
}

// An exhibit says whose bug it is, and where that can be read.
func TestExhibits(t *testing.T) {
	names := make(map[string]bool)
	for _, x := range libraries.All() {
		require.False(t, names[x.Name], "%s is there twice", x.Name)
		names[x.Name] = true
		require.NotEmpty(t, x.Library, x.Name)
		require.True(t, strings.HasPrefix(x.Reference, "https://"), x.Name)
		require.NotEmpty(t, x.Is, x.Name)
		require.NotEmpty(t, x.CaughtBy, x.Name)
		require.NotEmpty(t, x.Sees, x.Name)
	}
	require.GreaterOrEqual(t, len(names), 14)
}
