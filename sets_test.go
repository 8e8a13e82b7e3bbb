package lockport_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
)

// Sets whose names overlap do not wait for each other in a circle, whatever the order of their names. A set that fails holds no name.
func TestSetsDoNotDeadlock(t *testing.T) {
	bubble(t, func(w *world) {
		var all sync.WaitGroup
		for i := range 24 {
			c, _ := w.client()
			names := [][]string{{"x", "y", "z"}, {"z", "y", "x"}, {"y", "x"}, {"z", "x"}}[i%4]
			all.Go(func() {
				require.NoError(w, lockport.DoAll(w.ctx, c, names, func(ctx context.Context, _ *lockport.Set) error {
					time.Sleep(time.Millisecond)
					return ctx.Err()
				}))
			})
		}
		all.Wait()
		a, _ := w.client()
		held := w.acquire(a, "y")
		_, err := lockport.TryAcquireAll(w.ctx, a, []string{"z", "y", "x"})
		require.ErrorIs(t, err, lockport.ErrHeld)
		short, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		_, err = lockport.AcquireAll(short, a, []string{"z", "y", "x"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		w.release(held)
		for _, name := range []string{"x", "y", "z"} {
			w.nobodyHolds(name)
		}
	})
}
