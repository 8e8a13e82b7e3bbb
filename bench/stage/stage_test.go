package stage_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/stage"
)

// TestStages has the servers of each family count what a cycle of lockport asks of them, and tell when they let go of a name.
func TestStages(t *testing.T) {
	for _, f := range stage.Families {
		t.Run(f.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			st, err := f.Start(ctx)
			servers.NeedInstalled(t, err, f.Kind)
			defer func() { require.NoError(t, st.Close()) }()
			l, err := lib.Find(f.Name, "lockport")
			require.NoError(t, err)
			locker, err := l.Open(ctx, lib.Config{URL: st.URL, TTL: 10 * time.Second})
			require.NoError(t, err)
			defer func() { require.NoError(t, locker.Close()) }()
			hold, err := locker.Acquire(ctx, "a-name")
			require.NoError(t, err)

			expiry, err := st.Watch(ctx, []string{"a-name"})
			require.NoError(t, err)
			if expiry != nil {
				defer expiry.Close()
				require.NoError(t, expiry.Killed(ctx))
			}
			before, err := st.Load(ctx, nil)
			require.NoError(t, err)
			require.NoError(t, hold.Release(ctx))
			after, err := st.Load(ctx, nil)
			require.NoError(t, err)
			if st.CountsCommands() {
				require.Greater(t, after.Commands, before.Commands)
				idle, err := st.Load(ctx, nil)
				require.NoError(t, err)
				require.Less(t, idle.Commands-after.Commands, int64(20), "the questions themselves do not count")
			}
			if expiry != nil {
				require.Eventually(t, func() bool {
					_, seen := expiry.At("a-name")
					return seen
				}, 10*time.Second, time.Millisecond)
			}
		})
	}
}
