package run_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/run"
)

func TestMain(m *testing.M) {
	lib.Register(lib.Library{
		Name: "broken", Family: "redis", Kind: lib.Theirs, Waits: true, Renewal: lib.Never,
		Open: func(context.Context, lib.Config) (lib.Locker, error) { return broken{}, nil },
	})
	lib.Register(lib.Library{
		Name: "failing", Family: "redis", Kind: lib.Theirs, Waits: true, Renewal: lib.Never,
		Open: func(context.Context, lib.Config) (lib.Locker, error) { return failing{}, nil },
	})
	lib.Register(lib.Library{
		Name: "hanging", Family: "redis", Kind: lib.Theirs, Waits: true, Renewal: lib.Never,
		Open: func(context.Context, lib.Config) (lib.Locker, error) { return hanging{}, nil },
	})
	lib.WorkerMain()
	os.Exit(m.Run())
}

// broken lets everybody in.
type broken struct{}

func (b broken) Acquire(context.Context, string) (lib.Hold, error) {
	time.Sleep(time.Millisecond)
	return b, nil
}
func (b broken) Try(ctx context.Context, name string) (lib.Hold, error) { return b.Acquire(ctx, name) }
func (broken) Close() error                                             { return nil }

func (broken) Release(context.Context) error { return nil }

// failing takes its whole process with it.
type failing struct{ broken }

func (failing) Acquire(context.Context, string) (lib.Hold, error) {
	os.Stderr.WriteString("this library has a bug\n")
	os.Exit(3)
	return nil, nil
}

// hanging never comes back.
type hanging struct{ broken }

func (hanging) Acquire(context.Context, string) (lib.Hold, error) { select {} }

// TestHanging has a library that never comes back: the run goes on without it.
func TestHanging(t *testing.T) {
	servers.SharedRedis(t) // skips without
	plan := run.Quick
	plan.Limit = time.Second
	r, err := run.Run(t.Context(), run.Options{
		Progress: func(string) {},
		Turns:    1, Plan: plan,
		Match: func(family, scenario, library string) bool {
			return family == "redis" && library == "hanging" && scenario == "cycle"
		},
	})
	require.NoError(t, err)
	row := r.Scenarios[0].Rows[0]
	require.Equal(t, "it failed in every turn", row.NotRun)
	require.Len(t, row.Failed, 1)
}

// TestRun measures all of lockport's and a broken library's scenarios on a Redis, quickly.
func TestRun(t *testing.T) {
	servers.SharedRedis(t) // skips without
	var libraries = map[string]bool{"lockport": true, "broken": true, "failing": true, "PING twice": true}
	r, err := run.Run(t.Context(), run.Options{
		Progress: func(string) {},
		Turns:    2, Plan: run.Quick,
		Match: func(family, scenario, library string) bool {
			return family == "redis" && libraries[library] && (scenario == "cycle" || scenario == "contend-4x16" || scenario == "waiters-30" || scenario == "held-300")
		},
	})
	require.NoError(t, err)
	rows := func(scenario string) map[string]result.Row {
		of := make(map[string]result.Row)
		for _, s := range r.Scenarios {
			if s.Name == scenario {
				for _, row := range s.Rows {
					of[row.Library] = row
				}
			}
		}
		return of
	}
	value := func(row result.Row, name string) float64 {
		t.Helper()
		require.Empty(t, row.Failed)
		f, ok := row.Figure(name)
		require.True(t, ok, "%s has no %s: %+v", row.Library, name, row)
		require.Len(t, f.Each, 2)
		return f.Spread().Median
	}

	cycle := rows("cycle")
	require.Len(t, cycle, 4)
	require.Positive(t, value(cycle["lockport"], "p50"))
	require.Positive(t, value(cycle["PING twice"], "allocations"))
	require.Positive(t, cycle["broken"].Ratio("p50", cycle["lockport"]).Low)
	require.InDelta(t, 2, value(cycle["lockport"], "requests"), 0.5, "one to take it and one to release it")
	require.Len(t, cycle["failing"].Failed, 2, "a turn that failed is not the last")
	require.Contains(t, cycle["failing"].Failed[0], "this library has a bug")

	contended := rows("contend-4x16")
	require.NotContains(t, contended, "PING twice")
	require.Zero(t, value(contended["lockport"], "overlaps"))
	require.Positive(t, value(contended["lockport"], "hand-offs"))
	require.Positive(t, value(contended["broken"], "overlaps"), "a lock that lets everybody in must be seen")

	waiting := rows("waiters-30")["lockport"]
	require.Less(t, value(waiting, "requests"), 30.0, "fewer than one for each who waits")
	held := rows("held-300")["lockport"]
	require.Less(t, value(held, "goroutines"), 30.0)
	require.Positive(t, value(held, "client memory"))
}
