package lockport_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
)

// Sets whose names overlap exclude each other, and do not wait for each other in a circle, whatever the order of their names. A set that fails holds
// no name.
func TestSetsDoNotDeadlock(t *testing.T) {
	bubble(t, func(w *world) {
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute) // renewals would keep a deadlock alive
		defer cancel()
		inside := map[string]*atomic.Int32{"x": {}, "y": {}, "z": {}}
		var all sync.WaitGroup
		for i := range 24 {
			c, _ := w.client()
			names := [][]string{{"x", "y", "z"}, {"z", "y", "x"}, {"y", "x"}, {"z", "x"}}[i%4]
			all.Go(func() {
				assert.NoError(w, lockport.DoAll(ctx, c, names, func(ctx context.Context, _ *lockport.Set) error {
					for _, name := range names {
						defer inside[name].Add(-1)
						assert.EqualValues(w, 1, inside[name].Add(1), "sets that hold %s", name)
					}
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
		short, end := context.WithTimeout(w.ctx, time.Second)
		defer end()
		_, err = lockport.AcquireAll(short, a, []string{"z", "y", "x"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		w.release(held)
		for _, name := range []string{"x", "y", "z"} {
			w.nobodyHolds(name)
		}
	})
}
