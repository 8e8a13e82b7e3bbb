package memory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/driver"
)

// A waiting claim is granted at the moment of the holder's expiry, with a validity that counts from then.
func TestWaiterIsGrantedAtExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair()
		var told atomic.Pointer[error]
		req := request("x", "a")
		req.Lost = func(err error) { told.Store(&err) }
		holder := claim(t, a, req)
		start := time.Now()
		time.Sleep(time.Second)
		w := wait(t.Context(), b, request("x", "b"))
		synctest.Wait()
		_, err := driver.Renew(t.Context(), a, holder) // the timer is armed already
		require.NoError(t, err)
		got := <-w
		require.NoError(t, got.err)
		require.Equal(t, time.Second+ttl, time.Since(start))
		require.Equal(t, time.Now().Add(ttl), got.lease.Grant().Until)
		synctest.Wait()
		require.ErrorIs(t, *told.Load(), driver.ErrLost)
	})
}

func TestFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		s, a, _ := pair()
		holder := claim(t, a, request("x", "a"))
		order := make(chan int, n)
		for i := range n {
			b := memory.NewBackend(memory.Options{Server: s})
			go func() {
				lease, err := b.Wait(t.Context(), request("x", fmt.Sprint(i)))
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		require.Equal(t, n, waiters(t, a, "x"))
		release(t, holder)
		for i := range n {
			require.Equal(t, i, <-order)
		}
	})
}

// A claim that entered the queue keeps its place from TryAcquire to Wait, also while nobody waits for it.
func TestQueuedClaimKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := pair()
		holder := claim(t, a, request("x", "a"))
		queued := request("x", "b")
		queued.Queue = true
		_, err := b.TryAcquire(t.Context(), queued)
		require.ErrorIs(t, err, driver.ErrHeld)
		_, err = b.TryAcquire(t.Context(), queued) // again: one place
		require.ErrorIs(t, err, driver.ErrHeld)
		require.Equal(t, 1, waiters(t, a, "x"))

		later := wait(t.Context(), memory.NewBackend(memory.Options{Server: s}), request("x", "c"))
		synctest.Wait()
		release(t, holder)
		synctest.Wait()
		require.Empty(t, later)
		lease, err := b.Wait(t.Context(), queued)
		require.NoError(t, err)
		require.True(t, lease.Grant().Contended)
		again := claim(t, b, queued)
		require.Equal(t, lease.Grant(), again.Grant())
		release(t, lease)
		require.NoError(t, (<-later).err)
	})
}

// Without Queue, TryAcquire leaves nothing in the queue.
func TestTryAcquireDoesNotQueue(t *testing.T) {
	_, a, b := pair()
	holder := claim(t, a, request("x", "a"))
	_, err := b.TryAcquire(t.Context(), request("x", "b"))
	require.ErrorIs(t, err, driver.ErrHeld)
	require.Zero(t, waiters(t, a, "x"))
	release(t, holder)
	release(t, claim(t, a, request("x", "a")))
}

func TestContended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair()
		var told atomic.Int32
		req := request("x", "a")
		req.Contended = func() { told.Add(1) }
		holder := claim(t, a, req)
		require.False(t, holder.Grant().Contended)

		own := wait(t.Context(), a, request("x", "a"))
		synctest.Wait()
		require.Zero(t, told.Load(), "a waiter of the same client contends with nobody")
		foreign := wait(t.Context(), b, request("x", "a")) // another client, whatever it calls itself
		synctest.Wait()
		require.EqualValues(t, 1, told.Load())

		release(t, holder)
		second := (<-own).lease
		require.True(t, second.Grant().Contended)
		release(t, second)
		third := (<-foreign).lease
		require.False(t, third.Grant().Contended)
		require.EqualValues(t, 1, told.Load())
	})
}

// A claim that is abandoned while it waits stops waiting.
func TestAbandonEndsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair()
		claim(t, a, request("x", "a"))
		req := request("x", "b")
		w := wait(t.Context(), b, req)
		synctest.Wait()
		require.NoError(t, b.Abandon(t.Context(), req))
		require.ErrorIs(t, (<-w).err, driver.ErrUnknown)
	})
}

// Cancellation that races with the grant and is followed by Abandon leaves nothing.
func TestCancelRacesWithGrant(t *testing.T) {
	_, a, b := pair()
	for range 2000 {
		holder := claim(t, a, request("x", "a"))
		req := request("x", "b")
		ctx, cancel := context.WithCancel(t.Context())
		w := wait(ctx, b, req)
		for waiters(t, a, "x") == 0 {
		}
		go cancel()
		release(t, holder)
		if got := <-w; got.err != nil {
			require.NoError(t, b.Abandon(t.Context(), req))
		} else {
			release(t, got.lease)
		}
		release(t, claim(t, a, request("x", "a")))
		cancel()
	}
}

func TestRequeue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair()
		first := claim(t, a, request("x", "a"))

		// Nobody waits: the name is granted again.
		again := request("x", "a")
		again.Queue = true
		lease, gone, err := a.Requeue(t.Context(), first, again)
		require.NoError(t, gone)
		require.NoError(t, err)
		require.Greater(t, lease.Grant().Token, first.Grant().Token)

		// Somebody waits: they are first, and the new claim is next.
		w := wait(t.Context(), b, request("x", "b"))
		synctest.Wait()
		next := request("x", "a")
		next.Queue = true
		none, gone, err := a.Requeue(t.Context(), lease, next)
		require.NoError(t, gone)
		require.ErrorIs(t, err, driver.ErrHeld)
		require.Nil(t, none)
		second := <-w
		require.NoError(t, second.err)
		require.True(t, second.lease.Grant().Contended)
		release(t, second.lease)
		third, err := a.Wait(t.Context(), next)
		require.NoError(t, err)

		// The old lease is gone: the claim is made all the same.
		release(t, third)
		fourth := request("x", "a")
		fourth.Queue = true
		last := claim(t, b, request("x", "b"))
		time.Sleep(ttl)
		lease, gone, err = b.Requeue(t.Context(), last, fourth)
		require.ErrorIs(t, gone, driver.ErrLost)
		require.NoError(t, err)
		release(t, lease)
	})
}
