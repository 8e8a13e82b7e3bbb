package lockport_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
)

// The server goes silent: the hold ends before anybody else can have the name.
func TestSilenceEndsTheHoldInTime(t *testing.T) {
	// A renewal under way ends at the deadline. Renewals that fail at once leave that to the timer.
	for _, silence := range []func(*memorytest.Backend){(*memorytest.Backend).Pause, func(b *memorytest.Backend) { b.Fail(driver.ErrUnavailable) }} {
		bubble(t, func(w *world) {
			c, b := w.client()
			l := w.acquire(c, "a")
			ctx, cancel := l.Context(w.ctx)
			defer cancel()
			w.sleep(ttl)
			silence(b)
			deadline, _ := l.Deadline() // the last of the renewals begins shortly before
			next := w.begin(w.other(), "a")
			w.sleep(time.Until(deadline) - time.Nanosecond)
			require.True(t, l.Valid())
			require.False(t, isClosed(l.Lost()))
			w.sleep(time.Nanosecond)
			require.True(t, isClosed(ctx.Done()), "the context ends even if nobody calls Valid or Err")
			require.True(t, isClosed(l.Lost()))
			_, ok := l.Deadline()
			require.False(t, ok || l.Valid())
			require.ErrorIs(t, l.Err(), lockport.ErrSilence)
			require.ErrorIs(t, context.Cause(ctx), lockport.ErrSilence)
			require.Equal(t, 1, b.Calls(memorytest.Release), "no renewal outlasts the deadline, so the claim is undone at once")
			require.False(t, next.finished())
			second := next.got()
			require.Greater(t, w.token(second), w.token(l))
			b.Restore()
			require.ErrorIs(t, l.Release(w.ctx), lockport.ErrLost)
			synctest.Wait()
			require.True(t, second.Valid(), "a late release changes nothing")
			w.release(second)
		})
	}
}

// A lock whose renewals failed until shortly before its deadline leaves the others in its batch their time.
func TestLockNearItsDeadlineInABatch(t *testing.T) {
	bubble(t, func(w *world) {
		var limit atomic.Int64 // of the latest renewal
		c := w.on(w.around(func(c call) error {
			if c.method != "RenewBatch" {
				return c.do()
			}
			deadline, _ := c.ctx.Deadline()
			limit.Store(int64(time.Until(deadline)))
			return driver.ErrUnavailable
		}), lockport.TTL(12*time.Second))
		a := w.acquire(c, "a")
		w.sleep(6 * time.Second)
		w.acquire(c, "b")
		w.sleep(4 * time.Second) // b is renewed the first time, and a the last
		require.EqualValues(t, 2*time.Second, limit.Load())
		w.sleep(2 * time.Second)
		require.False(t, a.Valid())
	})
}

// Every call compares the clock, because no timer or goroutine may have run since the deadline. At that very instant their order is random.
func TestErrComparesTheClock(t *testing.T) {
	for i := range 200 {
		bubble(t, func(w *world) {
			c, b := w.client(lockport.TTL(time.Second))
			limit := []lockport.AcquireOption{lockport.MaxHold(200 * time.Millisecond), nil}[i%2]
			l := w.acquire(c, "a", limit)
			b.Pause()
			deadline, _ := l.Deadline()
			time.Sleep(time.Until(deadline))
			require.ErrorIs(t, l.Err(), lockport.ErrLost)
		})
	}
}

// A renewal that succeeds at the very instant of the deadline revives nothing, whichever is seen first.
func TestRenewalThatComesTooLateRevivesNothing(t *testing.T) {
	for range 100 {
		bubble(t, func(w *world) {
			end := time.Now().Add(ttl - ttl/20 - 10*time.Millisecond)
			c := w.on(w.around(func(c call) error {
				err := c.do()
				if c.method == "RenewBatch" {
					time.Sleep(time.Until(end)) // it ignores its context
				}
				return err
			}))
			l := w.acquire(c, "a")
			deadline, _ := l.Deadline()
			require.True(t, end.Equal(deadline))
			w.sleep(ttl)
			require.ErrorIs(t, l.Err(), lockport.ErrSilence)
			require.NoError(t, c.Close())
		})
	}
}

// A renewal may return no result, or a validity no later than the known one. The known one stays, and the next renewal is not sent at once.
func TestRenewalThatMovesNothing(t *testing.T) {
	for _, none := range []bool{true, false} {
		bubble(t, func(w *world) {
			var earlier driver.Renewal
			if !none {
				earlier.Until = time.Now().Add(ttl - time.Second)
			}
			renewals := 0
			c := w.on(renewing{memorytest.NewBackend(w.server, nil), func(ctx context.Context, _ []driver.Lease, results []driver.Renewal) {
				if renewals++; renewals > 100 {
					<-ctx.Done() // or time would stand still
				}
				results[0] = earlier
			}})
			l := w.acquire(c, "a")
			deadline, _ := l.Deadline()
			w.sleep(time.Until(deadline) - time.Nanosecond)
			unmoved, ok := l.Deadline()
			require.True(t, ok)
			require.Equal(t, deadline, unmoved)
			require.LessOrEqual(t, renewals, 9) // one in each twelfth of the TTL
			w.sleep(time.Nanosecond)
			require.ErrorIs(t, l.Err(), lockport.ErrSilence)
			require.NoError(t, c.Close())
		})
	}
}

// plain hides the optional interfaces of a backend.
type plain struct{ driver.Backend }

// A backend with only the four methods is polled, and its leases are renewed one by one. If it does not tell of losses, the renewal does.
func TestPlainBackend(t *testing.T) {
	bubble(t, func(w *world) {
		b := memorytest.NewBackend(w.server, nil)
		c := w.on(plain{trying{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
			req.Lost = nil
			return b.TryAcquire(ctx, req)
		}}})
		locks := make([]*lockport.Lock, 100)
		for i := range locks {
			locks[i] = w.acquire(c, fmt.Sprint(i))
		}
		require.NoError(t, w.other().Break(w.ctx, "0", locks[0].Owner()))
		w.sleep(ttl / 3)
		require.Equal(t, 100, b.Calls(memorytest.Renew))
		require.ErrorIs(t, locks[0].Err(), lockport.ErrLost)

		l := w.acquire(w.other(), "x")
		waiting := w.begin(c, "x")
		w.release(l)
		w.release(waiting.got())
		require.NoError(t, c.Close())
		w.nobodyHolds("7")
	})
}

// Timers stand still during a suspend. A hold's context ends soon after it all the same.
func TestContextEndsSoonAfterASuspend(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client()
		held, cancel := w.acquire(c, "a").Context(w.ctx)
		defer cancel()
		b.Pause()
		c.Suspend(time.Minute)
		w.sleep(time.Second)
		require.ErrorIs(t, context.Cause(held), lockport.ErrSilence)
	})
}

// The TTL counts from when the claim is sent: a slow reply leaves less time until the first renewal.
func TestSlowGrantIsRenewedInTime(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client(lockport.TTL(2 * time.Second))
		b.DelayNext(memorytest.Claim, 1500*time.Millisecond)
		l := w.acquire(c, "a")
		w.sleep(10 * time.Second)
		require.NoError(t, l.Err())
	})
}

// A hanging renewal leaves a release some of its time.
func TestReleaseBehindAHungRenewal(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client(lockport.TTL(time.Minute))
		l := w.acquire(c, "a")
		b.DelayNext(memorytest.Renew, time.Hour)
		for b.Calls(memorytest.Renew) == 0 {
			w.sleep(100 * time.Millisecond)
		}
		start := time.Now()
		w.release(l)
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
		w.nobodyHolds("a")
	})
}

// A claim lost during a renewal is undone after the renewal has returned, or after its context has ended.
func TestLossDuringARenewal(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client(lockport.MaxHold(4500 * time.Millisecond))
		l := w.acquire(c, "a")
		b.DelayNext(memorytest.Renew, time.Second) // from 4 s on
		w.sleep(4700 * time.Millisecond)
		require.ErrorIs(t, l.Err(), lockport.ErrMaxHold)
		require.Zero(t, b.Calls(memorytest.Release))
		w.sleep(time.Second)
		require.Equal(t, 1, b.Calls(memorytest.Release))
		w.nobodyHolds("a")
	})
	bubble(t, func(w *world) { // another reader has the claim
		c, b := w.client()
		w.acquire(c, "a", lockport.Shared(), lockport.MaxHold(4500*time.Millisecond))
		l := w.acquire(c, "a", lockport.Shared())
		b.DelayNext(memorytest.Renew, time.Second)
		w.sleep(4700 * time.Millisecond)
		require.Equal(t, 1, b.Calls(memorytest.Renew), "one at a time")
		w.release(l)
	})
	bubble(t, func(w *world) {
		c := w.stubborn(new(int32), "RenewBatch") // it is undone all the same
		l := w.acquire(c, "a", lockport.MaxHold(4500*time.Millisecond))
		w.sleep(5900 * time.Millisecond)
		require.ErrorIs(t, l.Err(), lockport.ErrMaxHold)
		w.requireHeld(w.other(), "a") // the renewal's context has not ended
		w.sleep(1200 * time.Millisecond)
		w.nobodyHolds("a")
		w.sleep(2 * time.Hour)
	})
}

// Ten thousand locks acquired at odd times are renewed in full batches, by a constant number of goroutines.
func TestManyLocksRenewTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trips atomic.Int64 // of at most 500 renewals each
		w := &world{T: t, ctx: t.Context(), server: memory.NewServer()}
		b := memorytest.NewBackend(w.server, nil)
		c := w.on(renewing{b, func(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
			trips.Add(int64(len(leases)+499) / 500)
			b.RenewBatch(ctx, leases, results)
		}}, lockport.TTL(30*time.Second))
		locks := make([]*lockport.Lock, 10_000)
		for i := range locks {
			locks[i] = w.acquire(c, fmt.Sprint(i))
			time.Sleep(time.Duration(i%7) * time.Millisecond)
		}
		time.Sleep(30 * time.Second)
		require.Less(t, runtime.NumGoroutine(), 50)
		before, calls := trips.Load(), b.Calls(memorytest.Renew)
		time.Sleep(100 * time.Second)
		require.LessOrEqual(t, trips.Load()-before, int64(10*25), "20 full ones in each third of the TTL, and at most 5 that are not")
		require.LessOrEqual(t, b.Calls(memorytest.Renew)-calls, 10*6)
		for _, l := range locks {
			require.True(t, l.Valid())
		}
		require.NoError(t, c.Close())
	})
}
