package costs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// children are the processes that this one has started and that have not ended.
func children(t *testing.T) (pids []string) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended meanwhile
		}
		pids = append(pids, strings.Fields(string(text))...)
	}
	return pids
}

// requireNoMore checks that nothing that was started since is left.
func requireNoMore(t *testing.T, before []string) {
	t.Helper()
	require.Subset(t, before, children(t), "processes are left")
}

// Whatever is under way: when the context ends, all processes end, and Run returns soon.
func TestCancellation(t *testing.T) {
	for i, at := range append([]string{"starting", "cycle"}, Scenarios()...) {
		later := i > 1 // not as the first worker begins, but when all have something to do
		t.Run(at, func(t *testing.T) {
			s := our(t, "redis")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancelled := make(chan time.Time, 1)
			r := &runner{plan: long, subjects: []subject{s}}
			r.Match = func(scenario, _ string) bool { return scenario == at || at == "starting" }
			r.Progress = func(_, _ int, what string) {
				if ctx.Err() != nil || !strings.HasSuffix(what, at) {
					return
				}
				before := len(children(t))
				go func() {
					for at != "starting" && len(children(t)) == before { // until the first worker is there
						time.Sleep(time.Millisecond)
					}
					if later {
						time.Sleep(500 * time.Millisecond)
					}
					cancelled <- time.Now()
					cancel()
				}()
			}
			folder := servers.TempDir(t)
			before := children(t)
			require.ErrorIs(t, r.run(ctx), context.Canceled)
			require.Less(t, time.Since(<-cancelled), 10*time.Second)
			requireNoMore(t, before)
			left, err := os.ReadDir(folder)
			require.NoError(t, err)
			require.Empty(t, left, "folders are left")
		})
	}
}

// long is a plan that would take an hour.
var long = plan{
	turns: 1 << 20, cycleTime: time.Hour, pingTime: time.Millisecond, handOffs: 1 << 20,
	clients: []int{8}, contentions: 1, contendTime: time.Hour,
	takeovers: 1000, waiters: []int{3}, waitTime: time.Hour,
}
