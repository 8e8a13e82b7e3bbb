package file

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// openLocks returns how many lock files in dir this process has open.
func openLocks(dir string) (n int) {
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if target, _ := os.Readlink(fd); filepath.Dir(target) == dir {
			n++
		}
	}
	return n
}

// A waiting claim keeps one descriptor and its turn; Abandon gives up both, although a child that is being started has a copy.
func TestQueue(t *testing.T) {
	nobodyOvertakes(t)
	dir := t.TempDir()
	a, b, c := backend(t, dir), backend(t, dir), backend(t, dir)
	holder := peer.Takes(t, a, request("x"))
	require.False(t, holder.Grant().Contended)
	next, later := queued("x"), queued("x")
	for range 3 {
		peer.Fails(t, b, next, driver.ErrHeld)
		peer.Fails(t, c, later, driver.ErrHeld)
	}
	require.Equal(t, 3, openLocks(dir))

	release(t, holder)
	again, returning := queued("x"), &peer.Peer{T: t, Of: a}
	require.Empty(t, returning.Waits(again).Holder, "the previous holder does not overtake, and is not named")
	peer.Fails(t, c, later, driver.ErrHeld)
	lease := peer.Takes(t, b, next)
	require.False(t, lease.Grant().Contended, "no waiter has tried since")
	peer.Fails(t, c, later, driver.ErrHeld) // it is next now
	held := returning.Waits(again)
	require.Equal(t, []any{next.Owner, lease.Grant().Token, true}, []any{held.Holder.Owner, held.Holder.Token, held.Poll >= minPoll})
	release(t, lease)
	peer.Fails(t, a, again, driver.ErrHeld)
	starts := child(t, c.claims[later.Owner].main.File)
	require.NoError(t, c.Abandon(t.Context(), later))
	release(t, peer.Takes(t, a, again))
	require.Zero(t, len(a.claims)+len(b.claims)+len(c.claims))
	starts()
	require.Zero(t, openLocks(dir))

	// A single attempt does not queue, and does not wait for the queue.
	holder = peer.Takes(t, a, request("x"))
	peer.Fails(t, b, queued("x"), driver.ErrHeld)
	release(t, holder)
	lease = peer.Takes(t, c, request("x"))
	require.True(t, lease.Grant().Contended)
	peer.Fails(t, a, request("x"), driver.ErrHeld)
	release(t, lease)
	require.NoError(t, b.Close())
	require.Zero(t, openLocks(dir))
}

// A next waiter that stopped trying delays the others only briefly, readers too.
func TestStoppedWaiterIsOvertaken(t *testing.T) {
	for _, as := range []func(string) driver.Request{request, reading} {
		for i := range 2 { // the next claim is by the earlier holder, or by a third backend
			dir := t.TempDir()
			a, b := backend(t, dir), backend(t, dir)
			holder := peer.Takes(t, a, as("x"))
			peer.Fails(t, b, queued("x"), driver.ErrHeld)
			release(t, holder)
			req := as("x")
			req.Queue = true
			release(t, (&peer.Peer{T: t, Of: []*Backend{a, backend(t, dir)}[i]}).TakesSoon(req))
		}
	}
}
