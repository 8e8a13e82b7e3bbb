package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// on is a client called name.
func on(t testing.TB, b driver.Backend, name string) *peer.Peer {
	return &peer.Peer{T: t, Of: b, Name: name}
}

// Another client that waits is told of, and a goroutine of the same client is not.
func TestContended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.NewServer()
		same, other := memory.NewBackend(memory.Options{Server: server}), memory.NewBackend(memory.Options{Server: server})
		a, told := on(t, same, "a"), 0
		req := a.Request("x")
		req.Contended = func() { told++ }
		holder := a.Takes(req)
		for foreign, waiter := range []*memory.Backend{same, other} {
			go func() { _, _ = waiter.Wait(t.Context(), a.Request("x")) }()
			synctest.Wait()
			require.Equal(t, foreign, told)
		}
		require.False(t, holder.Grant().Contended)
		a.Frees(holder)
		require.True(t, a.Takes(a.Request("y")).Grant().Token > holder.Grant().Token+1, "the next has got it")
	})
}

// All holders whose TTL has passed are gone at once, and a name that nobody holds is not kept.
func TestHoldersExpireTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBackend(memory.Options{})
		a, lost := on(t, b, "a"), 0
		for range 3 {
			req := a.Request("x")
			req.Permits, req.Lost = 3, func(error) { lost++ }
			a.Takes(req)
		}
		time.Sleep(a.Request("x").TTL)
		st, err := b.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, driver.Status{Name: "x"}, st)
		require.Equal(t, 3, lost)
		all, err := b.List(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, all)
	})
}
