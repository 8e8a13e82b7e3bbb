package lockport_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// A queue entry at the server is removed even if its caller left before the answer, or is later told that it cannot have the lock.
func TestPlaceInTheQueueIsGivenUp(t *testing.T) {
	bubble(t, func(w *world) {
		l := w.acquire(w.other(), "a")
		ctx, cancel := context.WithCancel(w.ctx)
		leaves := w.around(func(c call) error {
			err := c.do()
			cancel() // when the server has answered
			time.Sleep(time.Millisecond)
			return err
		})
		require.ErrorIs(t, peer.ErrOf(w.on(leaves).Acquire(ctx, "a")), context.Canceled)
		time.Sleep(time.Millisecond)
		w.requireWaiters("a", 0)
		require.Equal(t, 1, leaves.Calls(memorytest.Abandon))

		c, b := w.client()
		b.DelayNext(memorytest.Claim, 0) // the first attempt finds it held
		b.FailNext(memorytest.Claim, driver.ErrRefused)
		require.ErrorIs(t, peer.ErrOf(c.Acquire(w.ctx, "a")), lockport.ErrRefused)
		w.requireWaiters("a", 0)
		w.release(l)
		w.nobodyHolds("a")
	})
}

// The caller that makes the claim gives up before the grant. Callers that came meanwhile still get the name.
func TestMakerOfTheClaimLeaves(t *testing.T) {
	for _, fault := range []func(*memorytest.Backend){
		func(b *memorytest.Backend) { b.DelayNext(memorytest.Claim, time.Second) },
		func(b *memorytest.Backend) { b.Pause(); time.AfterFunc(time.Second, b.Resume) },
	} {
		bubble(t, func(w *world) {
			c, b := w.client()
			fault(b)
			first := w.begin(c, "a")
			second, third := w.begin(c, "a"), w.begin(c, "a")
			first.cancel()
			require.True(t, first.finished())
			require.ErrorIs(t, first.err, context.Canceled)
			w.release(second.got())
			w.release(third.got())
			w.nobodyHolds("a")
			require.Equal(t, !w.tardy, b.Calls(memorytest.Abandon) > 0, "its claim is abandoned before the next one")
		})
	}
}

// A caller that leaves just as it is handed the lock passes it on at once, whatever its MinHold.
func TestCallerLeavesAsItIsGranted(t *testing.T) {
	bubble(t, func(w *world) {
		c := w.other()
		for i := range 100 {
			l := w.acquire(c, "a")
			leaves := w.begin(c, "a", lockport.MinHold(time.Hour))
			next := w.begin(c, "a")
			if i%2 == 0 {
				next.cancel()
				<-next.done
			}
			leaves.cancel()
			w.release(l)
			if <-leaves.done; leaves.err == nil { // it was handed the lock first
				w.release(leaves.lock)
				w.sleep(time.Hour)
			}
			if start := time.Now(); i%2 == 1 {
				w.release(next.got())
				require.Zero(t, time.Since(start))
			}
			w.nobodyHolds("a")
		}
	})
}

// A claim that is abandoned for its waiters is undone even if that fails and they get an error, or have left by then.
func TestWhatCannotBeRenouncedIsUndone(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client()
		b.Delay(time.Second)
		first := w.begin(c, "told")
		second := w.begin(c, "told")
		b.FailNext(memorytest.Abandon, nil)
		first.cancel()
		if b.Delay(0); w.tardy { // it is not cut short, since another waits
			w.release(second.got())
		} else {
			require.True(t, second.finished())
			require.ErrorIs(t, second.err, lockport.ErrUnavailable)
		}
		w.sleep(time.Second)
		w.nobodyHolds("told")
	})
	bubble(t, func(w *world) {
		l, b, waiting := w.waitsForALostReply("left")
		b.DelayNext(memorytest.Abandon, time.Second)
		w.release(l)
		w.sleep(time.Second / 2)
		waiting.cancel()
		require.True(t, waiting.finished())
		b.Fail(driver.ErrUnavailable)
		w.sleep(time.Second)
		b.Fail(nil)
		w.sleep(2 * time.Second)
		w.nobodyHolds("left")
	})
	bubble(t, func(w *world) {
		l, b, waiting := w.waitsForALostReply("wanted")
		b.DelayNext(memorytest.Abandon, time.Second)
		w.release(l)
		b.Fail(driver.ErrUnavailable)
		w.sleep(time.Minute)
		require.InDelta(t, 120, b.Calls(memorytest.Abandon), 30, "it pauses for up to 500 ms")
		b.Fail(nil)
		w.release(waiting.got())
	})
}

// waitsForALostReply begins to acquire a lock that another client holds. When l is released, the grant's reply is lost.
func (w *world) waitsForALostReply(name string) (l *lockport.Lock, b *memorytest.Backend, waiting *acquiring) {
	l = w.acquire(w.other(), name)
	c, b := w.client()
	b.DelayNext(memorytest.Claim, 0) // the first attempt finds it held
	b.LoseNextReply(memorytest.Claim)
	return l, b, w.begin(c, name)
}

// A server that refuses to end a claim of unknown outcome, as after a change of the password, refuses the waiters.
func TestRefusedUndo(t *testing.T) {
	bubble(t, func(w *world) {
		l, b, waiting := w.waitsForALostReply("a")
		b.FailNext(memorytest.Abandon, driver.ErrRefused)
		w.release(l)
		w.sleep(time.Second)
		require.True(t, waiting.finished())
		require.ErrorIs(t, waiting.err, lockport.ErrRefused)
		w.nobodyHolds("a")
	})
}

// Of many claims, eight are undone at a time, also after earlier ones.
func TestManyUndos(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client()
		for range 2 {
			var l *lockport.Lock
			for i := range 9 {
				l = w.acquire(c, string(rune('a'+i)))
			}
			before := b.Calls(memorytest.Release)
			b.Pause()
			<-l.Lost()
			w.sleep(time.Millisecond)
			require.Equal(t, 8, b.Calls(memorytest.Release)-before)
			b.Resume()
		}
	})
}

// A grant or queue entry with the TTL of a caller that left is released. The next claim has the next waiter's TTL.
func TestAnothersTTL(t *testing.T) {
	for what, c := range map[string]struct {
		held  bool          // by another client
		delay time.Duration // of the claim
		first time.Duration // the TTL of the caller that leaves
	}{
		"granted":             {false, time.Second, 10 * time.Second},
		"queued":              {true, time.Second, 10 * time.Second},
		"waits at the server": {true, 0, 2 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world) {
				client, b := w.client()
				var held *lockport.Lock
				if c.held {
					held = w.acquire(w.other(), "a")
				}
				b.DelayNext(memorytest.Claim, c.delay)
				start := time.Now()
				short := w.begin(client, "a", lockport.TTL(c.first))
				long := w.begin(client, "a", lockport.TTL(time.Minute))
				short.cancel()
				require.True(t, short.finished())
				if c.held {
					w.sleep(2 * time.Second)
					w.requireWaiters("a", 1)
					w.release(held)
				}
				l := long.got()
				require.LessOrEqual(t, time.Since(start), 2*time.Second)
				deadline, _ := l.Deadline()
				require.Greater(t, time.Until(deadline), 50*time.Second)
				w.release(l)
				w.nobodyHolds("a")
			})
		})
	}
}
