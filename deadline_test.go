package lockport_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
)

// A batch that returns no result for a lease has not renewed it.
func TestBatchThatLeavesAClaimOut(t *testing.T) {
	bubble(t, func(w *world) {
		c := w.on(w.around(func(_ context.Context, method string, call func()) {
			if method != "RenewBatch" {
				call()
			}
		}))
		l := w.acquire(c, "a")
		deadline, _ := l.Deadline()
		w.sleep(time.Until(deadline) - time.Nanosecond)
		unmoved, ok := l.Deadline()
		require.True(t, ok)
		require.Equal(t, deadline, unmoved)
		w.sleep(time.Nanosecond)
		require.ErrorIs(t, l.Err(), lockport.ErrSilence)
		require.NoError(t, c.Close())
	})
}

// A renewal may return a validity no later than the known one. The known one stays, and the next renewal is not sent at once.
func TestRenewalThatMovesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		var renewals atomic.Int64
		c := w.on(w.renewing(func(ctx context.Context, l driver.Lease) (time.Time, error) {
			if renewals.Add(1) > 100 {
				<-ctx.Done() // or time would stand still
			}
			return l.Grant().Until.Add(-time.Second), nil
		}))
		l := w.acquire(c, "a")
		deadline, _ := l.Deadline()
		w.sleep(ttl * 3 / 4)
		again, _ := l.Deadline()
		require.Equal(t, deadline, again)
		require.LessOrEqual(t, renewals.Load(), int64(9)) // one in each twelfth of the TTL
		w.sleep(ttl)
		require.ErrorIs(t, l.Err(), lockport.ErrSilence)
		require.NoError(t, c.Close())
	})
}

// No renewal outlasts the deadline: the claim could not be undone at the server during it.
func TestRenewalEndsWithTheDeadline(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client()
		l := w.acquire(c, "a")
		deadline, _ := l.Deadline()
		b.Pause() // the last of the renewals begins shortly before
		w.sleep(time.Until(deadline))
		require.ErrorIs(t, l.Err(), lockport.ErrSilence)
		require.Equal(t, 1, b.Calls(memorytest.Release))
	})
}
