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

const ttl = 10 * time.Second

var owners atomic.Uint64

// request is a claim of name by a new owner of client.
func request(name, client string) driver.Request {
	return driver.Request{Name: name, Owner: fmt.Sprintf("%032x:%s", owners.Add(1), client), TTL: ttl}
}

// pair is two clients of one server.
func pair() (*memory.Server, *memory.Backend, *memory.Backend) {
	s := memory.NewServer()
	return s, memory.NewBackend(memory.Options{Server: s}), memory.NewBackend(memory.Options{Server: s})
}

func claim(t testing.TB, b *memory.Backend, req driver.Request) driver.Lease {
	t.Helper()
	lease, err := b.TryAcquire(t.Context(), req)
	require.NoError(t, err)
	return lease
}

func release(t testing.TB, lease driver.Lease) {
	t.Helper()
	require.NoError(t, lease.Release(t.Context()))
}

// waited is the outcome of a Wait that runs in the background.
type waited struct {
	lease driver.Lease
	err   error
}

func wait(ctx context.Context, b *memory.Backend, req driver.Request) <-chan waited {
	c := make(chan waited, 1)
	go func() {
		lease, err := b.Wait(ctx, req)
		c <- waited{lease, err}
	}()
	return c
}

func waiters(t testing.TB, b *memory.Backend, name string) int {
	t.Helper()
	st, err := b.Inspect(t.Context(), name)
	require.NoError(t, err)
	return st.Waiters
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair()
		first := claim(t, a, request("x", "a"))
		require.Equal(t, time.Now().Add(ttl), first.Grant().Until)

		time.Sleep(ttl / 2)
		until, err := driver.Renew(t.Context(), a, first)
		require.NoError(t, err)
		require.Equal(t, time.Now().Add(ttl), until)

		time.Sleep(ttl - time.Nanosecond)
		_, err = b.TryAcquire(t.Context(), request("x", "b"))
		require.ErrorIs(t, err, driver.ErrHeld)
		time.Sleep(time.Nanosecond)
		_, err = driver.Renew(t.Context(), a, first)
		require.ErrorIs(t, err, driver.ErrLost, "also while nobody has taken the name since")
		second := claim(t, b, request("x", "b"))
		require.Greater(t, second.Grant().Token, first.Grant().Token)

		_, err = driver.Renew(t.Context(), a, first)
		require.ErrorIs(t, err, driver.ErrLost)
		require.ErrorIs(t, first.Release(t.Context()), driver.ErrLost)
		_, err = driver.Renew(t.Context(), b, second)
		require.NoError(t, err)
	})
}

// A closed client's claims last for their TTL, as those of a dead process; its waiting claims are gone.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair()
		held := request("x", "a")
		held.Lost = func(error) { t.Error("a dead client was called") }
		lease := claim(t, a, held)
		start := time.Now()
		w := wait(t.Context(), a, request("x", "a"))
		synctest.Wait()
		theirs := wait(t.Context(), b, request("x", "b"))
		synctest.Wait()
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		require.ErrorIs(t, (<-w).err, driver.ErrUnknown)
		_, err := a.TryAcquire(t.Context(), request("z", "a"))
		require.ErrorIs(t, err, driver.ErrRefused)
		_, err = driver.Renew(t.Context(), a, lease)
		require.Error(t, err)
		require.Equal(t, 1, waiters(t, b, "x"), "the other client's")

		got := <-theirs
		require.NoError(t, got.err)
		require.Equal(t, ttl, time.Since(start))
	})
}

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
