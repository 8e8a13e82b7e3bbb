package lockport_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// A hold that was handed over keeps its token.
func TestDetachAfterHandOff(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.other(), w.other()
		first := w.acquire(a, "x")
		waits := w.begin(a, "x")
		w.release(first)
		second := waits.got()
		ticket := peer.Must(second.Detach(w.ctx))(t)
		w.release(second)
		attached := peer.Must(b.Attach(w.ctx, ticket))(t)
		require.ErrorIs(t, peer.ErrOf(b.Attach(w.ctx, ticket)), lockport.ErrLost, "once")
		before, _ := second.Token()
		require.Equal(t, before, w.token(attached))
		waits = w.begin(b, "x")
		w.release(attached)
		require.Greater(t, w.token(waits.got()), before)
	})
}

// A Detach that is answered too late may have succeeded, so the hold is lost. One whose context had ended before did nothing.
func TestDetachWithoutAnAnswer(t *testing.T) {
	bubble(t, func(w *world) {
		var detaching, beside atomic.Bool
		c := w.on(w.around(func(c call) error {
			if detaching.Load() && slices.Contains([]string{"Release", "RenewBatch", "Detach"}, c.method) {
				beside.Store(true)
			}
			switch c.method {
			case "Detach":
				detaching.Store(true)
				<-c.ctx.Done()
				time.Sleep(time.Second)
				detaching.Store(false)
			case "RenewBatch":
				time.Sleep(time.Second)
			}
			return c.do()
		}))
		lock := w.acquire(c, "x")
		ended, cancel := context.WithCancel(w.ctx)
		cancel()
		_, err := lock.Detach(ended)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lockport.ErrUnavailable)
		require.True(t, lock.Valid())

		require.ErrorIs(t, peer.ErrOf(lock.Detach(w.ctx)), lockport.ErrLost)
		require.ErrorIs(t, lock.Err(), lockport.ErrLost)
		require.ErrorIs(t, peer.ErrOf(lock.Detach(ended)), lockport.ErrLost, "other errors say that the hold lasts")
		require.NotErrorIs(t, errors.Join(err, lock.Err()), context.DeadlineExceeded, "no context of the caller's has ended")
		w.sleep(2 * time.Second)
		lock = w.acquire(c, "y")
		w.sleep(ttl / 3) // it is being renewed
		for range 2 {
			go func() { _, _ = lock.Detach(w.ctx) }()
		}
		w.sleep(2 * time.Second) // one Detach is under way
		require.ErrorIs(t, lock.Release(w.ctx), lockport.ErrUnavailable)
		w.sleep(2 * time.Second)

		// A claim that is being detached is not handed on, and is kept for MinHold no longer than the server keeps it.
		for name, keep := range map[string]time.Duration{"z": 0, "kept": 2 * ttl} {
			lock = w.acquire(c, name, lockport.MinHold(keep))
			waits := w.begin(c, name)
			go func() { _, _ = lock.Detach(w.ctx) }()
			synctest.Wait()
			go func() { _ = lock.Release(w.ctx) }()
			next := waits.got()
			w.sleep(2 * ttl)
			w.release(next)
		}
		w.sleep(ttl)
		require.False(t, beside.Load(), "a method of the lease beside Detach")
		w.nobodyHolds("x")
		w.nobodyHolds("y")
	})
}

// A hold with MinHold ends while its Detach is under way. Its name is free after the MinHold, not after the TTL.
func TestMinHoldBesideDetach(t *testing.T) {
	bubble(t, func(w *world) {
		c := w.on(w.around(func(c call) error {
			if c.method == "Detach" {
				defer time.Sleep(time.Second) // its answer is late
			}
			return c.do()
		}))
		for _, end := range []func(lock *lockport.Lock) error{
			func(lock *lockport.Lock) error { return lock.Release(w.ctx) },
			func(*lockport.Lock) error { return c.Close() },
		} {
			lock := w.acquire(c, "x", lockport.MinHold(2*time.Second))
			detached := make(chan error)
			go func() { detached <- peer.ErrOf(lock.Detach(w.ctx)) }()
			synctest.Wait()
			go func() { require.NoError(t, end(lock)) }()
			require.Error(t, <-detached)
			w.requireHeld(w.other(), "x")
			w.sleep(time.Second)
			w.nobodyHolds("x")
		}
	})
}

// A Detach that certainly failed leaves the hold as it was, and renewed; one of unknown outcome ends it.
func TestDetachThatFails(t *testing.T) {
	for failure, want := range map[error][]error{ // of Detach, and of the Release that follows
		driver.ErrUnavailable: {driver.ErrUnavailable, nil}, driver.ErrRefused: {driver.ErrRefused, nil}, driver.ErrUnknown: {lockport.ErrLost, lockport.ErrLost},
	} {
		bubble(t, func(w *world) {
			lock := w.acquire(w.on(w.around(func(c call) error {
				if c.method == "Detach" {
					time.Sleep(time.Second)
					return failure
				}
				return c.do()
			})), "x")
			w.sleep(ttl/3 - time.Second/2) // until a renewal is due soon
			require.ErrorIs(t, peer.ErrOf(lock.Detach(w.ctx)), want[0])
			w.sleep(2 * ttl)
			require.ErrorIs(t, lock.Release(w.ctx), want[1])
		})
	}
}

// A lock that is released during its Detach is not requeued: only Release may follow a Detach.
func TestReleaseBesideDetachIsNoRequeue(t *testing.T) {
	bubble(t, func(w *world) {
		var requeued atomic.Bool
		c := w.on(w.around(func(c call) error {
			switch c.method {
			case "Detach":
				defer time.Sleep(time.Second) // its answer is late
			case "Requeue":
				requeued.Store(true)
			}
			return c.do()
		}))
		lock := w.acquire(c, "x")
		foreign := w.begin(w.other(), "x")
		synctest.Wait()
		own := w.begin(c, "x")
		go func() { _, _ = lock.Detach(w.ctx) }()
		synctest.Wait()
		w.release(lock)
		require.False(t, requeued.Load())
		w.release(foreign.got())
		w.release(own.got())
	})
}

func TestTicketsThatAreNone(t *testing.T) {
	w, a, b := two(t)
	ticket := peer.Must(w.acquire(a, "x").Detach(t.Context()))(t)
	for _, s := range []string{"", "lp1.", "lp2." + ticket[4:], ticket[:len(ticket)-3], "lp1.e30"} {
		require.ErrorIs(t, peer.ErrOf(b.Attach(t.Context(), s)), lockport.ErrInvalidOption, s)
	}
	for _, opt := range []lockport.AcquireOption{lockport.Shared(), lockport.Permits(2), lockport.Reenter()} {
		require.ErrorIs(t, peer.ErrOf(b.Attach(t.Context(), ticket, opt)), lockport.ErrInvalidOption)
	}
	all := []lockport.AcquireOption{lockport.MaxHold(time.Hour), lockport.Shared()}
	require.NoError(t, peer.ErrOf(b.Attach(t.Context(), ticket, all[:1]...)))
	require.NoError(t, peer.ErrOf(b.Acquire(t.Context(), "z", all...)), "Attach changed its caller's options")
	for _, opt := range []lockport.AcquireOption{lockport.Shared(), lockport.Permits(2)} {
		require.ErrorIs(t, peer.ErrOf(peer.Must(a.Acquire(t.Context(), "y", opt))(t).Detach(t.Context())), errors.ErrUnsupported)
	}
}
