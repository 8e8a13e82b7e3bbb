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

// Another client that waits is told of, and a goroutine of the same client is not.
func TestContended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.NewServer()
		a, b := memory.NewBackend(memory.Options{Server: server}), memory.NewBackend(memory.Options{Server: server})
		told := 0
		req := request("x", "a")
		req.Contended = func() { told++ }
		holder := claim(t, a, req)
		for foreign, waiter := range []*memory.Backend{a, b} {
			go func() { _, _ = waiter.Wait(t.Context(), request("x", "a")) }()
			synctest.Wait()
			require.Equal(t, foreign, told)
		}
		require.False(t, holder.Grant().Contended)
		release(t, holder)
		require.True(t, claim(t, a, request("y", "a")).Grant().Token > holder.Grant().Token+1, "the next has got it")
	})
}

// All holders whose TTL has passed are gone at once, and a name that nobody holds is not kept.
func TestHoldersExpireTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBackend(memory.Options{})
		lost := 0
		for range 3 {
			req := request("x", "a")
			req.Permits, req.Lost = 3, func(error) { lost++ }
			claim(t, b, req)
		}
		time.Sleep(ttl)
		st, err := b.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, driver.Status{Name: "x"}, st)
		require.Equal(t, 3, lost)
		all, err := b.List(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, all)
	})
}
