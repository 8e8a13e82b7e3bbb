package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/page"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/servers"
)

// faulty are faulty libraries.
var faulty = map[string]func(context.Context, string, bool) (measure.Release, error){
	"broken": func(context.Context, string, bool) (measure.Release, error) { // excludes nobody
		time.Sleep(time.Millisecond)
		return func(context.Context) error { return nil }, nil
	},
	"failing": func(context.Context, string, bool) (measure.Release, error) {
		os.Stderr.WriteString("this library has a bug\n")
		os.Exit(3)
		return nil, nil
	},
	"hanging": func(context.Context, string, bool) (measure.Release, error) { select {} },
}

func TestMain(m *testing.M) {
	for name, acquire := range faulty {
		lib.All = append(lib.All, lib.Library{
			Name: name, Family: "redis", Kind: lib.Theirs, Waits: true, Open: func(context.Context, measure.Config) (measure.Locker, error) {
				return measure.Locker{Acquire: acquire, Close: func() error { return nil }}, nil
			},
		})
	}
	lib.WorkerMain()
	os.Exit(m.Run())
}

// measured runs a plan's scenarios on the matching libraries, on a Redis.
func measured(t *testing.T, p plan, match func(scenario, library string) bool) *page.Results {
	t.Helper()
	servers.SharedRedis(t) // skips the test if Redis is missing
	r, err := run(t.Context(), lib.Families[0], options{plan: p, progress: func(string) {}, match: func(_, scenario, library string) bool {
		return match(scenario, library)
	}})
	require.NoError(t, err)
	return r
}

// A library that hangs does not stop the run.
func TestHanging(t *testing.T) {
	p := quick
	p.limit = time.Second
	row := measured(t, p, func(scenario, library string) bool { return scenario == "cycle" && library == "hanging" }).Scenarios[0].Rows[0]
	require.Equal(t, "it failed in every turn", row.NotRun)
	require.Len(t, row.Failed, 1)
}

// A quick run measures all scenarios of lockport and of a broken library on a Redis.
func TestRun(t *testing.T) {
	p := quick
	p.turns = 2
	r := measured(t, p, func(scenario, library string) bool {
		switch library {
		case "lockport":
			return slices.Contains([]string{"cycle", "contend-4x16", "handoff-same", "takeover", "waiters-30", "held-300"}, scenario)
		case "broken":
			return scenario == "cycle" || scenario == "contend-4x16"
		}
		return scenario == "cycle" && (library == "failing" || library == lib.Pings)
	})
	row := func(scenario, library string) measure.Row { return r.Scenario(scenario).Row(library) }
	value := func(scenario, library, figure string) float64 {
		t.Helper()
		require.Empty(t, row(scenario, library).Failed)
		each := row(scenario, library).Figure(figure).Each
		require.Len(t, each, 2, "%s: %s has no %s", scenario, library, figure)
		return (each[0] + each[1]) / 2
	}
	require.Len(t, r.Scenario("cycle").Rows, 4)
	require.Positive(t, value("cycle", "lockport", "p50"))
	require.Positive(t, value("cycle", lib.Pings, "allocations"))
	require.Positive(t, row("cycle", "broken").Ratios(row("cycle", "lockport"), "p50")[0])
	failing := row("cycle", "failing")
	require.Len(t, failing.Failed, 2, "after a failed turn the next one must run")
	require.Contains(t, failing.Failed[0], "this library has a bug")

	require.Empty(t, row("contend-4x16", lib.Pings))
	require.Zero(t, value("contend-4x16", "lockport", "overlaps"))
	require.Positive(t, value("contend-4x16", "lockport", "hand-offs"))
	require.Positive(t, value("contend-4x16", "broken", "overlaps"), "a lock that excludes nobody must be detected")
	require.Positive(t, value("handoff-same", "lockport", "p50"))
	require.Positive(t, value("takeover", "lockport", "most"))
	require.Less(t, value("waiters-30", "lockport", "requests"), 30.0, "want fewer than one request for each waiter")
	require.Less(t, value("held-300", "lockport", "goroutines"), 30.0)
	require.Positive(t, value("held-300", "lockport", "client memory"))
}

// Each goal names a library that takes part in its scenario.
func TestGoals(t *testing.T) {
	all := make(map[string]scenario)
	for _, s := range scenarios(full) {
		all[s.Name] = s
	}
	seen := make(map[string]bool)
	for _, g := range page.Goals {
		require.Contains(t, []string{"≤", "≥"}, g.Is)
		require.NotEmpty(t, strings.Fields(g.Scenarios), g.What)
		for _, family := range strings.Fields(g.Families) {
			id := family + g.What + g.Scenarios
			require.False(t, seen[id], id)
			seen[id] = true
			require.Equal(t, g.To != nil, g.To[family] != nil, id)
			for _, library := range append([]string{g.Ours}, g.To[family]...) {
				for _, name := range strings.Fields(g.Scenarios + " " + g.Beyond) {
					l, found := lib.Find(family, library)
					require.True(t, found, "%s: %s", id, library)
					require.True(t, all[name].takes != nil && all[name].takes(l), "%s: %s has no part in %s", id, library, name)
				}
			}
		}
	}
}
