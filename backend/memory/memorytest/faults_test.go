package memorytest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// The conformance suite of package memory, and the tests of package lockport, inject the other faults.

// client is a client whose calls fail on demand.
type client struct {
	*memorytest.Backend
	*peer.Peer
}

func newClient(t testing.TB, name string, server *memory.Server, f *memorytest.Faults) client {
	b := memorytest.NewBackend(server, f)
	return client{b, &peer.Peer{T: t, Of: b, Name: name}}
}

// wait returns a channel with the error of a Wait that runs in the background.
func wait(ctx context.Context, b client, req driver.Request) <-chan error {
	c := make(chan error, 1)
	go func() { c <- peer.ErrOf(b.Wait(ctx, req)) }()
	return c
}

// A server that is down fails all calls of all its clients, also waiting ones, and holds callbacks back.
func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := memory.NewServer(), new(memorytest.Faults)
		a, b := newClient(t, "a", s, f), newClient(t, "b", s, f)
		told, req := make(chan error, 1), a.Request("x")
		req.Lost = func(err error) { told <- err }
		a.Takes(req)
		w := wait(t.Context(), b, b.Request("x"))
		synctest.Wait()

		f.Fail(driver.ErrUnavailable)
		require.ErrorIs(t, <-w, driver.ErrUnknown)
		for _, c := range []client{a, b} {
			require.ErrorIs(t, peer.ErrOf(c.Try(b.Request("y"))), driver.ErrUnavailable)
		}
		s.Lose("x", nil)
		require.Empty(t, told)
		f.Fail(nil)
		require.ErrorIs(t, <-told, driver.ErrLost)
		a.Frees(a.Takes(a.Request("y")))
	})
}

// A cut fails the calls under way, which have reached the server, but no later ones.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newClient(t, "a", nil, nil)
		holder, waiting := a.Takes(a.Request("x")), a.Request("x")
		a.CutAfter(1)
		err := <-wait(t.Context(), a, waiting)
		require.ErrorIs(t, err, driver.ErrUnknown)
		require.NotErrorIs(t, err, context.Canceled, "its context has not ended")
		require.Equal(t, 1, peer.Shows(t, a.Backend, "x").Waiters, "the waiting claim did not reach the server")
		a.Frees(holder)
		a.Takes(waiting)

		cut, last := a.CutAfter(2), a.Request("z")
		a.Takes(a.Request("y"))
		require.ErrorIs(t, peer.ErrOf(a.Try(last)), driver.ErrUnknown)
		<-cut
		a.Takes(last)
	})
}

// Restore withdraws all faults.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newClient(t, "a", nil, nil)
		a.Pause()
		a.Fail(driver.ErrUnavailable)
		a.Delay(time.Hour)
		a.LoseNextReply(memorytest.Claim)
		a.CutAfter(1)
		a.Restore()
		a.Frees(a.Takes(a.Request("x")))
	})
}
