package lockport_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// A release that panics counts as an unknown outcome: it is undone and can be repeated, with or without waiters.
func TestReleaseThatPanics(t *testing.T) {
	for _, others := range []bool{false, true} {
		bubble(t, func(w *world) {
			if w.tardy {
				return // a panic on a goroutine of the client's own ends the program
			}
			panics := 1
			c := w.on(w.around(func(c call) error {
				if panics > 0 && (c.method == "Release" || c.method == "Requeue") {
					panics--
					panic("oops")
				}
				return c.do()
			}), lockport.WithoutHandOff())
			l := w.acquire(c, "a")
			var mine, foreign *acquiring
			if others {
				mine = w.begin(c, "a")
				foreign = w.begin(w.other(), "a")
			}
			require.PanicsWithValue(t, "oops", func() { _ = l.Release(w.ctx) })
			require.Zero(t, panics)
			_ = l.Release(w.ctx) // it returns
			if others {
				w.release(foreign.got())
				w.release(mine.got())
			}
			synctest.Wait()
			w.release(w.acquire(c, "a"))
			require.NoError(t, c.Close())
			w.nobodyHolds("a")
		})
	}
}

// stepped is a context whose deadline the wall clock was set past: its timer is monotonic and has not fired.
type stepped struct {
	context.Context
	deadline time.Time
}

func (s stepped) Deadline() (time.Time, bool) { return s.deadline, true }

// Nobody waits for the end of a context whose deadline has passed, but which has not ended.
func TestCallersContextBehindItsDeadline(t *testing.T) {
	bubble(t, func(w *world) {
		if w.tardy {
			return // the attempt has the client's own context
		}
		c := w.on(w.around(func(c call) error { // its socket has the deadline of the context, by the wall clock
			if d, ok := c.ctx.Deadline(); ok && c.method == "TryAcquire" && !time.Now().Before(d) {
				return fmt.Errorf("%w: i/o timeout", driver.ErrUnknown)
			}
			return c.do()
		}))
		late := w.within(time.Minute)
		late.ctx = stepped{late.ctx, time.Now().Add(-time.Second).Round(0)}
		start := time.Now()
		_, err := c.Acquire(late.ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lockport.ErrUnavailable, "the server did not answer")
		held := w.acquire(c, "a")
		_, err = w.other().TryAcquire(late.ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lockport.ErrHeld, "it did")
		refused, b := w.client()
		b.FailNext(memorytest.Claim, driver.ErrRefused)
		require.ErrorIs(t, peer.ErrOf(refused.TryAcquire(late.ctx, "b")), lockport.ErrRefused)
		w.release(held)
		require.Less(t, time.Since(start), time.Second)
		w.nobodyHolds("a")
	})
}

// Web servers recover from panics: the grant is released, the name stays usable, and the client can be closed.
func TestOddBackend(t *testing.T) {
	bubble(t, func(w *world) {
		if w.tardy {
			return // a panic on a goroutine of the client's own ends the program
		}
		grants := 0
		b := memorytest.NewBackend(w.server, nil)
		c := w.on(trying{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
			lease, err := b.TryAcquire(ctx, req)
			switch grants++; grants {
			case 1:
				panic("oops")
			case 2:
				req.Lost(nil)
			case 3:
				return nil, nil
			case 4:
				return nil, driver.ErrLost
			case 5:
				return nil, context.Canceled
			}
			return lease, err
		}})
		require.PanicsWithValue(t, "oops", func() { _, _ = c.TryAcquire(w.ctx, "a") })
		w.nobodyHolds("a")
		for range 4 {
			_, err := c.TryAcquire(w.ctx, "a")
			require.ErrorIs(t, err, lockport.ErrUnavailable, "lost before it was granted, or no answer that makes sense")
			require.NotErrorIs(t, err, lockport.ErrLost, "nothing was held")
			require.NotErrorIs(t, err, context.Canceled, "it was not the caller's")
			synctest.Wait()
		}
		w.release(peer.Must(c.TryAcquire(w.ctx, "a"))(t))
		start := time.Now()
		require.NoError(t, c.Close())
		require.Zero(t, time.Since(start))
	})
}

// A hook that panics leaves no hold behind, nor does AcquireAll. A Release without a context leaves its hold.
func TestCallsThatPanic(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(lockport.Observe(lockport.Hooks{AcquireDone: func(_ context.Context, e lockport.AcquireEvent) {
			if e.Name == "b" && e.Err == nil {
				panic("oops")
			}
		}}))
		held := w.acquire(w.other(), "b")
		require.Panics(t, func() { _ = held.Release(context.Context(nil)) })
		time.AfterFunc(time.Second, func() { w.release(held) })
		require.PanicsWithValue(t, "oops", func() { _, _ = lockport.AcquireAll(w.ctx, c, []string{"a", "b"}, lockport.MinHold(time.Hour)) })
		w.nobodyHolds("a")
		w.nobodyHolds("b")
	})
}
