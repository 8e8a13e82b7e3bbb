package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// on returns a client called name.
func on(t testing.TB, b driver.Backend, name string) *peer.Peer {
	return &peer.Peer{T: t, Of: b, Name: name}
}

// A holder is told of another waiting client, but not of a goroutine of its own client.
func TestContended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, told, leases := memory.NewBackend(memory.Options{}), 0, make(chan driver.Lease, 2)
		a := on(t, b, "a")
		req := a.Request("x")
		req.Contended = func() { told++ }
		holder := a.Takes(req)
		for foreign, waiter := range []*peer.Peer{a, on(t, b, "b")} {
			go func() { lease, _ := b.Wait(t.Context(), waiter.Request("x")); leases <- lease }()
			synctest.Wait()
			require.Equal(t, foreign, told)
		}
		require.False(t, holder.Grant().Contended)
		a.Frees(holder)
		require.True(t, (<-leases).Grant().Contended, "another client waits behind")
		require.True(t, a.Takes(a.Request("y")).Grant().Token > holder.Grant().Token+1, "the next waiter did not get it")
	})
}

// Close ends what waits, also a reader that the end of the writer before it lets in.
func TestCloseEndsWaitingClaims(t *testing.T) {
	server := memory.NewServer()
	b, other := memory.NewBackend(memory.Options{Server: server}), on(t, memory.NewBackend(memory.Options{Server: server}), "other")
	req := other.Request("x")
	req.Shared, req.Queue = true, true
	holder := other.Takes(req)
	for _, req.Shared = range []bool{false, true} {
		req.Owner = on(t, b, "b").Request("x").Owner
		require.ErrorIs(t, peer.ErrOf(b.TryAcquire(t.Context(), req)), driver.ErrHeld)
	}
	require.NoError(t, b.Close())
	other.Frees(holder)
	other.Takes(other.Request("x"))
}

// Validity counts from the call, not from its arrival at the server or the reply, each of which takes a second here.
func TestValidityCountsFromTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memorytest.NewBackend(nil, nil)
		a := on(t, b, "a")
		req := a.Request("x")
		b.Delay(time.Second)
		slow := func(kind memorytest.Call) (valid time.Time) {
			b.DelayNext(kind, time.Second)
			return time.Now().Add(req.TTL)
		}
		valid := slow(memorytest.Claim)
		lease := a.Takes(req)
		require.Zero(t, lease.Grant().Until.Sub(valid))
		valid = slow(memorytest.Renew)
		require.Zero(t, peer.Must(a.Renews(lease))(t).Sub(valid))
	})
}

// A claim attached with a shorter TTL ends after that TTL, counted from its renewal.
func TestAttachWithAShorterTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBackend(memory.Options{})
		a, granted := on(t, b, "a"), make(chan error)
		first, req := a.Request("x"), a.Request("x")
		held := a.Takes(first)
		require.NoError(t, b.Detach(t.Context(), held))
		go func() { granted <- peer.ErrOf(b.Wait(t.Context(), a.Request("x"))) }()
		synctest.Wait()
		req.TTL = time.Second
		attached := peer.Must(b.Attach(t.Context(), req, first.Owner, held.Grant().Token))(t)
		begun := time.Now()
		time.Sleep(time.Second / 2)
		require.NoError(t, peer.ErrOf(a.Renews(attached)))
		require.NoError(t, <-granted)
		require.Equal(t, 3*time.Second/2, time.Since(begun))
	})
}

func TestURL(t *testing.T) {
	open := func(url string) *memory.Backend { return peer.Opened(t, url).(*memory.Backend) }
	require.Same(t, memory.SharedServer(""), open("memory:").Server())
	require.Same(t, open("memory:url-test").Server(), open("memory:url-test?ttl=3s").Server())
	require.NotSame(t, open("memory:").Server(), open("memory:url-test").Server())
	for _, bad := range []string{"memory://host", "memory:///path", "memory:x?prefix=y", "memory:x#fragment"} {
		require.Error(t, peer.ErrOf(peer.Open(t.Context(), bad)), bad)
	}
}
