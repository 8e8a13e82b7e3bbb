package lockport_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
)

// chain lets n goroutines of c wait for name behind l, and ends one hold after another, each after pause. It counts the server's grants.
func chain(w *world, c *lockport.Client, l *lockport.Lock, n int, pause time.Duration) (grants int) {
	var waiting []*acquiring
	for range n {
		waiting = append(waiting, w.begin(c, l.Name()))
	}
	token, grants := w.token(l), 1
	for _, a := range waiting {
		w.sleep(pause)
		w.release(l)
		l = a.got()
		next := w.token(l)
		require.Greater(w, next, token)
		if next/1024 != token/1024 {
			grants++
		}
		token = next
	}
	w.release(l)
	return grants
}

// A hand-off sends no request. Hand-offs end after a thousand, and after 100 ms, because polling clients are not seen waiting.
func TestHandOffs(t *testing.T) {
	for what, c := range map[string]struct {
		waiters int
		pause   time.Duration
		opts    []lockport.Option
		grants  int
	}{
		"invisible to the server":  {1000, 0, nil, 1},
		"end after a thousand":     {1001, 0, nil, 2},
		"end after 100 ms":         {50, 10 * time.Millisecond, nil, 5},
		"none with WithoutHandOff": {20, 0, []lockport.Option{lockport.WithoutHandOff()}, 21},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world) {
				client, b := w.client(c.opts...)
				require.Equal(t, c.grants, chain(w, client, w.acquire(client, "a"), c.waiters, c.pause))
				require.Equal(t, []int{c.grants, c.grants}, []int{b.Calls(memorytest.Claim), b.Calls(memorytest.Release)})
			})
		})
	}
}

// Hand-offs end after 16 when another process waits, or a reader of this process, which the server cannot report.
func TestHandOffsEndAfter16(t *testing.T) {
	for _, reads := range []bool{false, true} {
		bubble(t, func(w *world) {
			c, _ := w.client()
			l := w.acquire(c, "a")
			from, as := w.other(), lockport.AcquireOption(nil)
			if reads {
				from, as = c, lockport.Shared()
			}
			other := w.begin(from, "a", as)
			var waiting []*acquiring
			for range 40 {
				waiting = append(waiting, w.begin(c, "a"))
			}
			for i, a := range waiting[:16] {
				w.release(l)
				require.False(t, other.finished(), i)
				l = a.got()
			}
			w.release(l)
			require.True(t, other.finished())
			w.release(other.got())
			for _, a := range waiting[16:] {
				w.release(a.got())
			}
			w.nobodyHolds("a")
		})
	}
}

// A permit that is handed off ends its taker's wait at the server. Readers join a claim for its TTL, or for 100 ms without Contended.
func TestHandOffsInOtherModes(t *testing.T) {
	for _, reported := range []bool{true, false} {
		bubble(t, func(w *world) {
			b := memorytest.NewBackend(w.server, nil)
			c := w.on(stating{b, func(caps *driver.Capabilities) { caps.Contended = reported }})
			permit := w.acquire(c, "x", lockport.Permits(1))
			waiting := w.begin(c, "x", lockport.Permits(1))
			w.requireWaiters("x", 1)
			w.release(permit)
			w.release(waiting.got())
			w.requireWaiters("x", 0)
			writer := w.acquire(c, "x")
			before, after := w.begin(c, "x", lockport.Shared()), w.begin(c, "x", lockport.Shared())
			w.release(writer)
			first := before.got()
			require.Equal(t, first.Owner(), after.got().Owner())
			w.sleep(ttl / 2)
			require.Equal(t, reported, w.acquire(c, "x", lockport.Shared()).Owner() == first.Owner())
		})
	}
}

// A claim is not handed off to a caller with another TTL, nor with little validity left.
func TestClaimsThatAreNotHandedOff(t *testing.T) {
	const brief = 60 * time.Millisecond // 13 ms of it are the margin
	for _, ttl := range []time.Duration{brief, time.Minute} {
		bubble(t, func(w *world) {
			c, b := w.client(lockport.TTL(brief))
			l := w.acquire(c, "a")
			waiting := w.begin(c, "a", lockport.TTL(ttl))
			if ttl == brief {
				b.Fail(driver.ErrUnavailable)
				w.sleep(30 * time.Millisecond) // 17 ms are left, less than a third
				b.Fail(nil)
			}
			first := w.token(l)
			w.release(l)
			next := waiting.got()
			require.NotEqual(t, first/1024, w.token(next)/1024)
			require.Equal(t, ttl, next.TTL())
		})
	}
}

// The name becomes free for a moment, for polling clients, unless another client is known to wait. That client then gets its turn.
func TestRequeue(t *testing.T) {
	for _, lost := range []bool{false, true} {
		bubble(t, func(w *world) {
			requeues := 0
			b := w.around(func(c call) error {
				if c.method == "Requeue" {
					requeues++
				}
				return c.do()
			})
			c := w.on(b, lockport.WithoutHandOff())
			l := w.acquire(c, "a")
			mine := w.begin(c, "a")
			w.release(l)
			l = mine.got()
			require.Zero(t, requeues, "no other client is known to wait")

			mine = w.begin(c, "a")
			foreign := w.begin(w.other(), "a")
			if lost {
				b.LoseNextReply(memorytest.Claim) // of the requeue: neither outcome is known, but the second release is no loss
			}
			w.release(l)
			require.Equal(t, 1, requeues, "another client waits")
			w.release(foreign.got())
			next := mine.got()
			require.NotEqual(t, l.Owner(), next.Owner(), "a requeued claim has its own owner id")
			require.Equal(t, lost, b.Calls(memorytest.Abandon) > 0, "it keeps its place")
			w.release(next)
			w.nobodyHolds("a")
		})
	}
}

// A waiter that leaves during the requeue that claims for it leaves no entry in the queue. If the requeue and the releases after it fail, Close waits
// until the lock is released all the same.
func TestPlaceOfARequeuedClaimIsGivenUp(t *testing.T) {
	for _, fails := range []int{0, 2, 3} {
		bubble(t, func(w *world) {
			failures := fails
			c := w.on(w.around(func(c call) error {
				if c.method == "Requeue" || c.method == "Release" {
					time.Sleep(time.Second)
					if failures--; failures >= 0 {
						return driver.ErrUnknown
					}
				}
				return c.do()
			}), lockport.WithoutHandOff())
			l := w.acquire(c, "a")
			mine := w.begin(c, "a")
			foreign := w.begin(w.other(), "a")
			start, released := time.Now(), make(chan error, 1)
			go func() { released <- l.Release(w.ctx) }()
			synctest.Wait()
			mine.cancel()
			require.True(t, mine.finished())
			if fails > 0 {
				require.NoError(t, c.Close())
			}
			require.Equal(t, fails < 3, <-released == nil, "three attempts are made")
			w.release(foreign.got())
			require.Less(t, time.Since(start), ttl/2)
			w.requireWaiters("a", 0)
			w.nobodyHolds("a")
		})
	}
}

// MaxHold and MinHold count from the hand-off, not from the grant of the claim.
func TestLimitsOfAHandedOnHold(t *testing.T) {
	const most, least = 5500 * time.Millisecond, 3 * time.Second
	bubble(t, func(w *world) {
		c, _ := w.client()
		first := w.acquire(c, "a")
		waiting := w.begin(c, "a", lockport.MaxHold(most), lockport.MinHold(least))
		w.sleep(50 * time.Millisecond)
		w.release(first)
		second := waiting.got()
		require.Equal(t, first.Owner(), second.Owner())
		lost, _ := second.Lost(), second.Lost() // one channel
		w.sleep(most - time.Nanosecond)
		require.False(t, isClosed(lost))
		w.sleep(time.Nanosecond)
		require.True(t, isClosed(lost))

		first = w.acquire(c, "b")
		waiting = w.begin(c, "b", lockport.MinHold(least))
		w.sleep(50 * time.Millisecond)
		w.release(first)
		w.release(waiting.got())
		w.sleep(least - time.Nanosecond)
		w.requireHeld(w.other(), "b")
		w.sleep(time.Nanosecond)
		w.nobodyHolds("b")
	})
}
