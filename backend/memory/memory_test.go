package memory_test

import (
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

func TestContended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.NewServer()
		a, b := memory.NewBackend(memory.Options{Server: server}), memory.NewBackend(memory.Options{Server: server})
		wait := func(b *memory.Backend) <-chan driver.Lease {
			granted := make(chan driver.Lease, 1)
			go func() {
				lease, _ := b.Wait(t.Context(), request("x", "a"))
				granted <- lease
			}()
			synctest.Wait()
			return granted
		}
		var told atomic.Int32
		req := request("x", "a")
		req.Contended = func() { told.Add(1) }
		holder := claim(t, a, req)
		require.False(t, holder.Grant().Contended)

		own := wait(a)
		require.Zero(t, told.Load(), "a waiter of the same client contends with nobody")
		foreign := wait(b) // another client, whatever it calls itself
		require.EqualValues(t, 1, told.Load())

		release(t, holder)
		second := <-own
		require.True(t, second.Grant().Contended)
		release(t, second)
		third := <-foreign
		require.False(t, third.Grant().Contended)
		require.EqualValues(t, 1, told.Load())
	})
}

// A claim that waits is gone when it is abandoned, or its client is closed.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.NewServer()
		a, b := memory.NewBackend(memory.Options{Server: server}), memory.NewBackend(memory.Options{Server: server})
		claim(t, a, request("x", "a"))
		for _, end := range []func(driver.Request) error{
			func(req driver.Request) error { return b.Abandon(t.Context(), req) },
			func(driver.Request) error { return b.Close() },
		} {
			req, ended := request("x", "b"), make(chan error, 1)
			go func() { _, err := b.Wait(t.Context(), req); ended <- err }()
			synctest.Wait()
			require.NoError(t, end(req))
			require.ErrorIs(t, <-ended, driver.ErrUnknown)
			st, err := a.Inspect(t.Context(), "x")
			require.NoError(t, err)
			require.Zero(t, st.Waiters)
		}
	})
}
