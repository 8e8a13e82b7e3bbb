package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestMain(m *testing.M) {
	lib.WorkerMain()
	m.Run()
}

// A quick run measures lockport on a Redis in every kind of scenario, beside bare requests.
func TestRun(t *testing.T) {
	servers.SharedRedis(t) // skips the test if Redis is missing
	p := quick
	p.turns = 2
	const pings = "PING twice"
	measured := map[string][]string{
		"lockport": {"cycle", "contend-4x16", "handoff-same", "takeover", "waiters-30", "held-300"}, pings: {"cycle", "contend-4x16"},
	}
	r, err := run(t.Context(), lib.Families[0], options{plan: p, progress: func(string) {}, match: func(_, scenario, library string) bool {
		return slices.Contains(measured[library], scenario)
	}})
	require.NoError(t, err)
	value := func(scenario, library, figure string) float64 {
		t.Helper()
		row := r.Scenario(scenario).Row(library)
		require.Empty(t, row.Failed)
		each := row.Figure(figure).Each
		require.Len(t, each, 2, "%s: %s has no %s", scenario, library, figure)
		return (each[0] + each[1]) / 2
	}
	require.Positive(t, value("cycle", "lockport", "p50"))
	require.Positive(t, value("cycle", pings, "cycles"))
	require.Empty(t, r.Scenario("contend-4x16").Row(pings))
	require.Zero(t, value("contend-4x16", "lockport", "overlaps"))
	require.Positive(t, value("contend-4x16", "lockport", "hand-offs"))
	require.Positive(t, value("handoff-same", "lockport", "p50"))
	require.Positive(t, value("takeover", "lockport", "most"))
	require.Less(t, value("waiters-30", "lockport", "requests"), 30.0, "want fewer than one request for each waiter")
	require.Less(t, value("held-300", "lockport", "goroutines"), 30.0)
	require.Positive(t, value("held-300", "lockport", "client memory"))
}
