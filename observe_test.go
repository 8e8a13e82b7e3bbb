package lockport_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
)

func TestHooks(t *testing.T) {
	bubble(t, func(w *world) {
		type key struct{}
		var started []string
		var acquired []lockport.AcquireEvent
		var releases, losses []lockport.HoldEvent
		var renewals []lockport.RenewEvent
		c, b := w.client(lockport.Observe(lockport.Hooks{
			AcquireStart: func(ctx context.Context, name string) context.Context {
				started = append(started, name)
				return context.WithValue(ctx, key{}, name)
			},
			AcquireDone: func(ctx context.Context, e lockport.AcquireEvent) {
				require.Equal(t, e.Name, ctx.Value(key{}))
				acquired = append(acquired, e)
			},
			Released: func(e lockport.HoldEvent) { releases = append(releases, e) },
			Lost:     func(e lockport.HoldEvent) { losses = append(losses, e) },
			Renewed:  func(r lockport.RenewEvent) { renewals = append(renewals, r) },
		}))
		l := w.acquire(c, "a")
		w.sleep(5 * time.Second)
		w.release(l)
		l = w.acquire(c, "b")
		b.Server().Lose("b", errors.New("by a test"))
		synctest.Wait()
		_, err := c.TryAcquire(w.ctx, "")
		require.Error(t, err)
		require.Equal(t, []string{"a", "b", ""}, started)
		require.Len(t, acquired, 3)
		require.NoError(t, acquired[0].Err)
		require.NotZero(t, acquired[0].Token)
		require.ErrorIs(t, acquired[2].Err, lockport.ErrInvalidName)
		require.Len(t, releases, 1)
		require.Equal(t, 5*time.Second, releases[0].Held)
		require.NoError(t, releases[0].Err)
		require.Len(t, losses, 1)
		require.Equal(t, w.token(l), losses[0].Token)
		require.ErrorIs(t, losses[0].Err, lockport.ErrLost)
		require.Len(t, renewals, 1)
		require.Positive(t, renewals[0].Left)
	})
}
