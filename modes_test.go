package lockport_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// two are two clients of one server, as in two processes, in a world whose time is real outside a bubble.
func two(t *testing.T) (w *world, a, b *lockport.Client) {
	w = &world{T: t, ctx: t.Context(), server: memory.NewServer()}
	a, _ = w.client()
	b, _ = w.client()
	return w, a, b
}

func (w *world) requireHeld(c *lockport.Client, name string, opts ...lockport.AcquireOption) {
	w.Helper()
	require.ErrorIs(w, peer.ErrOf(c.TryAcquire(w.ctx, name, opts...)), lockport.ErrHeld)
}

func TestReadersShareAClaim(t *testing.T) {
	w, a, b := two(t)
	readers := make([]*lockport.Lock, 10_000)
	for i := range readers {
		readers[i] = w.acquire(a, "x", lockport.Shared())
	}
	elsewhere := w.acquire(b, "x", lockport.Shared())
	w.requireHeld(a, "x")
	w.requireHeld(b, "x")
	st := peer.Must(b.Inspect(t.Context(), "x"))(t)
	require.True(t, st.Shared)
	require.Len(t, st.Others, 1, "one claim for each process")

	first, _ := readers[0].Token()
	for _, r := range readers {
		require.True(t, r.Valid())
		token, _ := r.Token()
		require.Equal(t, first, token)
		require.NoError(t, r.Release(t.Context()))
	}
	w.requireHeld(a, "x")
	require.NoError(t, elsewhere.Release(t.Context()))
	writer := w.acquire(a, "x")
	token, _ := writer.Token()
	require.Greater(t, token, first)
	w.requireHeld(a, "x", lockport.Shared())
	w.requireHeld(b, "x", lockport.Shared())
}

// A caller gets another hold's permit at once, even if its own request has no answer and others wait for that too.
func TestHandOffDuringARequest(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client()
		two := lockport.Permits(2)
		holder := w.acquire(c, "x", two)
		b.DelayNext(memorytest.Claim, time.Hour)
		handed, next := w.begin(c, "x", two), w.begin(c, "x", two)
		w.release(holder)
		require.True(t, handed.finished())
		w.release(handed.got())
		next.got()
	})
}

// TryAcquire sends no request if its client is acquiring the name, unless a permit may be free.
func TestTryAcquireBesideAcquire(t *testing.T) {
	bubble(t, func(w *world) {
		c := w.on(w.around(func(c call) error {
			if c.method == "TryAcquire" {
				time.Sleep(time.Second)
			}
			return c.do()
		}))
		two := lockport.Permits(2)
		tries := func(requests time.Duration, want error, name string, opts ...lockport.AcquireOption) {
			begun := time.Now()
			require.ErrorIs(t, peer.ErrOf(c.TryAcquire(w.within(time.Minute).ctx, name, opts...)), want)
			require.Equal(t, requests*time.Second, time.Since(begun))
		}
		w.begin(c, "x")
		tries(0, lockport.ErrHeld, "x")
		w.begin(c, "p", two)
		tries(2, nil, "p", two)
		waits := w.begin(c, "p", two)
		w.sleep(2 * time.Second)
		tries(0, lockport.ErrHeld, "p", two)
		waits.cancel()
		require.True(t, isClosed(waits.done))
		tries(1, lockport.ErrHeld, "p", two) // nobody waits
	})
}

// A waiting writer, in this process or another, comes before later readers, even if they could join a held claim. So does one of this process whose
// request reaches the server after that of the first reader, and one that waits unannounced.
func TestWriterIsNotStarved(t *testing.T) {
	for _, how := range []string{"here", "elsewhere", "overtaken", "unseen"} {
		bubble(t, func(w *world) {
			a, b := w.client()
			with := a
			if how == "elsewhere" || how == "unseen" {
				with, _ = w.client()
			}
			if how == "unseen" { // as a foreign client by Postgres
				a = w.on(trying{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
					req.Contended = nil
					return b.TryAcquire(ctx, req)
				}})
			}
			var writes *acquiring
			if how == "overtaken" {
				b.DelayNext(memorytest.Claim, time.Second)
				writes = w.begin(with, "x")
			}
			joined := []*lockport.Lock{w.acquire(a, "x", lockport.Shared())}
			if writes == nil {
				writes = w.begin(with, "x")
			}
			w.sleep(2 * time.Second) // the writer is in the server's queue
			for {                    // as many as the bounds let in
				require.Less(t, len(joined), 100, "the writer is starved")
				w.sleep(ttl / 60)
				next, err := a.Acquire(w.within(time.Millisecond).ctx, "x", lockport.Shared())
				if err != nil {
					break
				}
				joined = append(joined, next)
			}
			late := w.begin(a, "x", lockport.Shared())
			for _, r := range joined {
				w.release(r)
			}
			writer := writes.got()
			require.False(t, late.finished())
			w.release(writer)
			w.release(late.got())
		})
	}
}

// MaxHold ends one reader's hold only, and the others are renewed. They are lost together if the server ends their claim.
func TestReadersAreLostTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a, b := two(t)
		longer := w.acquire(a, "x", lockport.Shared(), lockport.MaxHold(10*time.Second))
		short := w.acquire(a, "x", lockport.Shared(), lockport.MaxHold(time.Second))
		locks := []*lockport.Lock{w.acquire(a, "x", lockport.Shared()), w.acquire(a, "x", lockport.Shared())}
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, short.Err(), lockport.ErrMaxHold)
		<-short.Lost()
		<-longer.Lost()
		time.Sleep(time.Minute)
		require.NoError(t, locks[0].Err(), "it is renewed")
		require.NoError(t, b.Break(t.Context(), "x", locks[0].Owner()))
		for _, lock := range append(locks, short) {
			require.ErrorIs(t, lock.Err(), lockport.ErrLost)
			<-lock.Lost()
			require.ErrorIs(t, lock.Release(t.Context()), lockport.ErrLost)
		}
		w.acquire(a, "x")
	})
}

func TestReenter(t *testing.T) {
	w, a, b := two(t)
	outer := w.acquire(a, "x")
	w.ctx = lockport.WithLock(t.Context(), outer)
	w.requireHeld(a, "x")                     // not without Reenter
	w.requireHeld(b, "x", lockport.Reenter()) // another client's
	require.Equal(t, "y", w.acquire(a, "y", lockport.Reenter()).Name())
	require.ErrorIs(t, peer.ErrOf(a.TryAcquire(w.ctx, "x", lockport.Reenter(), lockport.Permits(2))), lockport.ErrInvalidOption, "a permit of a lock")
	inner := w.acquire(a, "x", lockport.Reenter(), lockport.Shared())
	require.Equal(t, outer.Owner(), inner.Owner())
	w.release(inner)
	require.True(t, outer.Valid())

	inner = w.acquire(a, "x", lockport.Reenter())
	require.Equal(t, w.token(outer), w.token(inner))
	require.ErrorIs(t, peer.ErrOf(inner.Detach(w.ctx)), errors.ErrUnsupported)
	innermost := peer.Must(a.Acquire(lockport.WithLock(w.ctx, inner), "x", lockport.Reenter()))(t)
	w.release(outer)
	for _, lock := range []*lockport.Lock{inner, innermost} {
		require.ErrorIs(t, lock.Err(), lockport.ErrLost, "its outer hold was released")
		<-lock.Lost()
		require.ErrorIs(t, lock.Release(w.ctx), lockport.ErrLost)
	}
	require.ErrorIs(t, peer.ErrOf(a.Acquire(w.ctx, "x", lockport.Reenter())), lockport.ErrReleased)

	w.ctx = lockport.WithLock(t.Context(), w.acquire(b, "x", lockport.Shared()))
	w.release(w.acquire(b, "x", lockport.Reenter(), lockport.Shared()))
	require.ErrorIs(t, peer.ErrOf(b.TryAcquire(w.ctx, "x", lockport.Reenter())), lockport.ErrInvalidOption, "a reader as a writer")
}

func TestAcquireAll(t *testing.T) {
	w, a, b := two(t)
	set := peer.Must(lockport.AcquireAll(t.Context(), a, []string{"z", "x"}))(t)
	require.Equal(t, []string{"x", "z"}, []string{set.Locks()[0].Name(), set.Locks()[1].Name()})
	w.requireHeld(b, "x")
	held, cancel := set.Context(t.Context())
	defer cancel()
	require.True(t, set.Valid())
	require.NoError(t, b.Break(t.Context(), "z", set.Locks()[1].Owner()))
	<-held.Done()
	require.ErrorIs(t, context.Cause(held), lockport.ErrLost)
	w.release(set.Locks()[0])
	require.ErrorIs(t, set.Err(), lockport.ErrLost, "that counts more than the release")
	_, ok := set.Deadline()
	require.False(t, ok || set.Valid(), "a set that is lost")
	require.ErrorIs(t, set.Release(t.Context()), lockport.ErrLost)
	w.acquire(b, "x")

	for _, names := range [][]string{nil, {"p", "q", "p"}} {
		require.ErrorIs(t, lockport.DoAll(t.Context(), a, names, nil), lockport.ErrInvalidName)
	}
}

// MinHold does not keep names that were acquired for a set that did not come about. It counts for a reader that was used beside an unused one.
func TestSetThatFailsIgnoresMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a, b := two(t)
		held, minute := w.acquire(b, "z"), lockport.MinHold(time.Minute)
		fails := func(opts ...lockport.AcquireOption) {
			require.ErrorIs(t, peer.ErrOf(lockport.TryAcquireAll(t.Context(), a, []string{"y", "z"}, opts...)), lockport.ErrHeld)
		}
		fails(minute)
		w.nobodyHolds("y")
		fails(minute, lockport.Shared())
		w.nobodyHolds("y")
		w.release(w.acquire(a, "y", lockport.Shared(), minute))
		fails(lockport.Shared(), lockport.MinHold(time.Second))
		time.Sleep(30 * time.Second)
		w.requireHeld(b, "y")
		time.Sleep(time.Minute)

		time.AfterFunc(time.Second, func() { _ = held.Release(context.Background()) })
		begun := time.Now()
		set := peer.Must(lockport.AcquireAll(t.Context(), a, []string{"y", "z"}, minute))(t)
		require.Equal(t, time.Second, time.Since(begun))
		for i, after := range []time.Duration{0, ttl/4 + time.Second/2} { // by then the first has been renewed, and not the second
			time.Sleep(after)
			want, _ := set.Locks()[i].Deadline()
			earliest, _ := set.Deadline()
			require.Equal(t, want, earliest)
		}
		require.NoError(t, set.Release(t.Context()))
		require.ErrorIs(t, set.Err(), lockport.ErrReleased)
		time.Sleep(time.Minute)
	})
}

// A reader joins the claim of others only while that is held, and not before a reader that waits.
func TestReadersThatDoNotJoin(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client()
		first := w.acquire(c, "x", lockport.Shared())
		b.DelayNext(memorytest.Release, time.Second)
		go w.release(first)
		w.sleep(time.Millisecond)
		late := w.acquire(c, "x", lockport.Shared())
		b.DelayNext(memorytest.Claim, 2*time.Second)
		waiting := w.begin(c, "x", lockport.Shared(), lockport.TTL(2*ttl))
		later := w.begin(c, "x", lockport.Shared())
		require.False(t, later.finished(), "it overtakes")
		w.release(waiting.got())
		w.release(later.got())
		w.requireHeld(w.other(), "x")
		w.release(late)
	})
}

// A reader comes when the claim of other readers ends, before the timer has fired. Close finds its hold.
func TestReaderThatFindsTheClaimExpired(t *testing.T) {
	bubble(t, func(w *world) {
		for range 20 { // their order is random
			c, _ := w.client()
			w.acquire(c, "x", lockport.Shared(), lockport.MaxHold(time.Second))
			var late sync.WaitGroup
			locks := make([]*lockport.Lock, 8)
			for i := range locks {
				late.Go(func() {
					time.Sleep(time.Second)
					locks[i] = w.acquire(c, "x", lockport.Shared())
				})
			}
			late.Wait()
			require.NoError(t, c.Close())
			for _, l := range locks {
				require.ErrorIs(t, l.Err(), lockport.ErrClosed)
			}
		}
	})
}

// The MaxHold of a reader does not cut short the MinHold of another, whose hold has ended.
func TestMaxHoldBesideMinHold(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client()
		brief := w.acquire(c, "x", lockport.Shared(), lockport.MaxHold(time.Second))
		w.release(w.acquire(c, "x", lockport.Shared(), lockport.MinHold(10*time.Second)))
		w.sleep(2 * time.Second)
		require.ErrorIs(t, brief.Err(), lockport.ErrMaxHold)
		w.requireHeld(w.other(), "x")
		w.sleep(8 * time.Second)
		w.nobodyHolds("x")
	})
}

// Close ends all holds in every mode, and those of readers also after a writer of their process has given up. It waits for MinHold.
func TestCloseInEveryMode(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.other(), w.other()
		var locks []*lockport.Lock
		for range 3 {
			locks = append(locks, w.acquire(a, "x", lockport.Shared()), w.acquire(a, "x", lockport.Permits(3)))
		}
		w.begin(a, "x").cancel()
		synctest.Wait()
		require.NoError(t, a.Close())
		for _, lock := range locks {
			require.ErrorIs(t, lock.Err(), lockport.ErrClosed)
			require.False(t, isClosed(lock.Lost()), "a close is no loss")
		}
		w.acquire(b, "x")
		for range 3 {
			w.acquire(b, "x", lockport.Permits(3))
		}
		start := time.Now()
		w.acquire(b, "kept", lockport.MinHold(10*time.Second), nil)
		require.NoError(t, b.Close())
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

// Sets whose names overlap exclude each other, and do not wait for each other in a circle, whatever the order of their names. A set that fails holds
// no name. It returns with its context, even if the server is silent by then.
func TestSetsDoNotDeadlock(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := w.within(time.Minute).ctx // renewals would keep a deadlock alive
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
		a, b := w.client()
		held := w.acquire(a, "y")
		require.ErrorIs(t, peer.ErrOf(lockport.TryAcquireAll(w.ctx, a, []string{"z", "y", "x"})), lockport.ErrHeld)
		for _, silence := range []func(){func() {}, b.Pause} {
			time.AfterFunc(time.Second/2, silence)
			start := time.Now()
			require.ErrorIs(t, peer.ErrOf(lockport.AcquireAll(w.within(time.Second).ctx, a, []string{"z", "y", "x"})), context.DeadlineExceeded)
			require.LessOrEqual(t, time.Since(start), 1100*time.Millisecond, "it waits for no release")
		}
		b.Resume()
		w.release(held)
		for _, name := range []string{"x", "y", "z"} {
			w.nobodyHolds(name)
		}
	})
}
