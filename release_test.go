package lockport_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// A repeated release that finds the claim gone is a loss only if its time was up.
func TestReleaseRepeatedAfterALostReply(t *testing.T) {
	for want, late := range map[error]time.Duration{nil: 0, lockport.ErrLost: 3 * time.Second} {
		bubble(t, func(w *world) {
			again := false
			b := w.around(func(c call) error {
				if c.method == "Release" {
					if again {
						return driver.ErrLost // the backend cannot know who ended the claim
					}
					again = true
				}
				return c.do()
			})
			c := w.on(b, lockport.TTL(2*time.Second))
			l := w.acquire(c, "a")
			b.LoseNextReply(memorytest.Release)
			b.Delay(late)
			time.AfterFunc(time.Second, func() { b.Delay(0) })
			require.ErrorIs(t, l.Release(w.ctx), want)
			require.True(t, again)
			require.NoError(t, c.Close())
		})
	}
}

// A request that ends a claim is repeated in time if a dying server or connection has lost it, or if the driver waited for a connection.
func TestLostRequestsThatEndClaims(t *testing.T) {
	for _, class := range []error{driver.ErrUnknown, driver.ErrUnavailable} {
		bubble(t, func(w *world) {
			b := w.around(func(c call) error {
				if err := c.do(); err != nil && c.ctx.Err() != nil {
					return class
				}
				return nil
			})
			l := w.acquire(w.on(b), "a")
			b.DelayNext(memorytest.Release, time.Hour)
			start := time.Now()
			w.release(l)
			require.Equal(t, 2500*time.Millisecond, time.Since(start))

			c, b := w.client()
			l = w.acquire(w.other(), "a")
			b.DelayNext(memorytest.Abandon, time.Hour)
			w.begin(c, "a").cancel()
			w.sleep(3 * time.Second)
			w.requireWaiters("a", 0)
			w.release(l)
		})
	}
}

// A release that the server does not confirm in three attempts is ErrUnavailable. The hold has ended, and the client retries until the name is free.
func TestReleaseThatIsNotConfirmed(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client()
		l := w.acquire(c, "a")
		for range 4 { // the last one, and Abandon, in the background
			b.FailNext(memorytest.Release, driver.ErrUnknown)
		}
		b.FailNext(memorytest.Abandon, driver.ErrUnknown)
		err := l.Release(w.ctx)
		require.ErrorIs(t, err, lockport.ErrUnavailable)
		require.Regexp(t, `^lockport: release "a" \(memory\): .*whether the lock was released is unknown`, err.Error())
		require.ErrorIs(t, l.Err(), lockport.ErrReleased)
		require.Equal(t, err, l.Release(w.ctx), "a repeated call does nothing")
		w.sleep(ttl / 12)
		w.nobodyHolds("a")
	})
}

// Requests carry their caller's context values, which tracers need, but do not end with its context where that would undo them.
// The context of a request ends with it, which frees its timer and its place among its parent's children.
func TestContextsOfRequests(t *testing.T) {
	type key struct{}
	bubble(t, func(w *world) {
		var contexts []context.Context
		c := w.on(w.around(func(c call) error {
			_ = c.ctx.Done()           // as client libraries do
			if c.method != "Abandon" { // it has no caller
				contexts = append(contexts, c.ctx)
			}
			return c.do()
		}), lockport.WithoutHandOff())
		other := w.other()
		w.ctx = context.WithValue(w.ctx, key{}, "mine")
		w.release(w.acquire(c, "a")) // a claim, a release
		l := w.acquire(other, "a")
		mine := w.begin(c, "a") // a claim, a wait
		w.release(l)
		l = mine.got()
		mine.cancel() // the work is canceled; the lock is released anyway
		ended := mine.ctx
		mine, foreign := w.begin(c, "a"), w.begin(other, "a")
		require.NoError(t, l.Release(ended)) // a re-queue
		mine.cancel()
		require.True(t, mine.finished())
		w.release(foreign.got())
		w.release(w.acquire(c, "b", lockport.MinHold(time.Second)))
		w.sleep(2 * time.Second) // it is released in the background
		require.GreaterOrEqual(t, len(contexts), 7)
		for i, ctx := range contexts {
			require.ErrorIs(t, ctx.Err(), context.Canceled, i)
			require.True(t, i >= 6 || ctx.Value(key{}) == "mine", "request %d lacks a value of its caller's context", i) // later ones clean up
		}
	})
}

func TestConcurrentReleases(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client()
		l := w.acquire(c, "a")
		b.DelayNext(memorytest.Release, time.Second)
		start := time.Now()
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() { errs <- l.Release(w.ctx) }()
			synctest.Wait()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
			require.Equal(t, time.Second, time.Since(start), "each returns when it is done")
		}
		require.Equal(t, 1, b.Calls(memorytest.Release))
	})
}

// A closed client leaves nothing that keeps it in memory.
func TestCloseLeavesNothing(t *testing.T) {
	c := peer.Must(memory.New(memory.Options{}, lockport.TTL(time.Hour)))(t)
	l := peer.Must(c.Acquire(t.Context(), "a"))(t)
	require.NoError(t, l.Release(t.Context()))
	require.NoError(t, c.Close())
	left := weak.Make(c)
	c, l = nil, nil
	require.Eventually(t, func() bool { runtime.GC(); return left.Value() == nil }, 10*time.Second, time.Millisecond)
}

// Background releases end with the client, even those that began late because only so many run at once. Attempts end at once.
func TestCloseEndsItsReleases(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client()
		for i := range 129 {
			w.acquire(c, fmt.Sprint(i))
		}
		b.Delay(2 * time.Second)
		start := time.Now()
		again := make(chan error)
		go func() { again <- c.Close() }()
		err := c.Close()
		require.Equal(t, err, <-again)
		require.ErrorIs(t, peer.ErrOf(c.TryAcquire(w.ctx, "0")), lockport.ErrClosed)
		require.ErrorIs(t, err, lockport.ErrUnavailable)
		require.Regexp(t, `^lockport: close \(memory\): .*may remain at the server: 1;`, err.Error())
		require.Equal(t, 5*time.Second, time.Since(start))

		c, b = w.client()
		b.DelayNext(memorytest.Claim, time.Hour)
		waiting := w.begin(c, "a")
		start = time.Now()
		require.NoError(t, c.Close())
		require.True(t, waiting.finished())
		require.ErrorIs(t, waiting.err, lockport.ErrClosed)
		require.Zero(t, time.Since(start))
	})
}

func TestContextEndsWithTheHold(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client()
		l := w.acquire(c, "a")
		ctx, cancel := l.Context(w.ctx)
		defer cancel()
		canceled, cancelIt := l.Context(w.ctx)
		cancelIt()
		require.ErrorIs(t, context.Cause(canceled), context.Canceled)
		parent, cancelParent := context.WithCancelCause(w.ctx)
		child, cancelChild := l.Context(parent)
		defer cancelChild()
		cancelParent(io.EOF)
		require.Equal(t, io.EOF, context.Cause(child))
		require.False(t, isClosed(ctx.Done()) || isClosed(l.Lost()))
		w.release(l)
		require.ErrorIs(t, context.Cause(ctx), lockport.ErrReleased)
		require.False(t, isClosed(l.Lost()), "a release is no loss")
		late, cancelLate := l.Context(w.ctx)
		defer cancelLate()
		require.ErrorIs(t, context.Cause(late), lockport.ErrReleased)
	})
}

// A fn that panics leaves no lock. One whose locker was closed meanwhile may have overlapped another holder's work.
func TestDoThatEndsBadly(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client()
		require.PanicsWithValue(t, "oops", func() {
			_ = lockport.Do(w.ctx, c, "a", func(context.Context, *lockport.Lock) error { panic("oops") })
		})
		w.nobodyHolds("a")
		err := lockport.Do(w.ctx, c, "a", func(ctx context.Context, _ *lockport.Lock) error {
			require.NoError(t, c.Close())
			w.nobodyHolds("a")
			return io.EOF
		})
		require.ErrorIs(t, err, lockport.ErrClosed)
		require.Regexp(t, "^EOF; [^\n]+$", err)
	})
}

// A hold whose time was up when Close looked is lost, not closed, whichever comes first of Close and the timer.
func TestCloseTellsALoss(t *testing.T) {
	for range 50 {
		bubble(t, func(w *world) {
			c, b := w.client()
			l := w.acquire(c, "a")
			b.Pause()
			deadline, _ := l.Deadline()
			time.Sleep(time.Until(deadline))
			go b.Resume()
			_ = c.Close()
			require.ErrorIs(t, l.Err(), lockport.ErrLost)
			require.True(t, isClosed(l.Lost()))
		})
	}
}
