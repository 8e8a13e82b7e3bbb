package file

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// A new reader does not overtake a waiting writer, not even with a single attempt. It does overtake a writer that stopped trying.
func TestReadersDoNotOvertakeAWriter(t *testing.T) {
	nobodyOvertakes(t)
	dir := t.TempDir()
	a, b, c := backend(t, dir), backend(t, dir), backend(t, dir)
	first := peer.Takes(t, a, reading("x"))
	writer := queued("x")
	peer.Fails(t, b, writer, driver.ErrHeld)
	late := peer.Reading(queued("x"))
	peer.Fails(t, c, reading("x"), driver.ErrHeld)
	peer.Fails(t, c, late, driver.ErrHeld)
	c.claims[late.Owner].tried = time.Time{} // so long ago that it may overtake the writer, but not join a reader
	peer.Fails(t, c, late, driver.ErrHeld)
	release(t, first)
	peer.Fails(t, c, reading("x"), driver.ErrHeld)
	peer.Fails(t, c, late, driver.ErrHeld)
	held := peer.Takes(t, b, writer)
	require.False(t, held.Grant().Contended, "no waiter has tried since")
	peer.Fails(t, c, late, driver.ErrHeld)
	release(t, held)
	release(t, peer.Takes(t, c, late))
}

// A reader after a killed writer, whose record still says held; and one of a damaged file. While it has the file, the record names nobody.
func TestReaderOfADamagedFile(t *testing.T) {
	dir := t.TempDir()
	b := backend(t, dir)
	last := peer.Takes(t, b, request("x"))
	release(t, last)
	path := filepath.Join(dir, FileName("x"))
	for _, damage := range []func() error{
		func() error { put(t, path, record{held: true, token: last.Grant().Token}); return nil },
		func() error { return os.Truncate(path, 700) },
		func() error { return os.Remove(path) },
	} {
		require.NoError(t, damage())
		reader := peer.Takes(t, b, reading("x"))
		require.Greater(t, reader.Grant().Token, last.Grant().Token)
		release(t, peer.Takes(t, b, reading("x")))
		require.Empty(t, (&peer.Peer{T: t, Of: b}).Waits(request("x")).Holder.Owner)
		release(t, reader)
		next := peer.Takes(t, b, request("x"))
		require.Greater(t, next.Grant().Token, reader.Grant().Token)
		release(t, next)
		last = next
	}
	put(t, path, record{token: driver.MaxToken})
	peer.Fails(t, b, reading("x"), driver.ErrRefused)
	require.Zero(t, openLocks(dir))
}

// A folder on a file system that other machines can lock too is refused.
func TestSharedFileSystem(t *testing.T) {
	b := backend(t, t.TempDir())
	var st syscall.Statfs_t
	require.NoError(t, syscall.Statfs(b.dir.path, &st))
	shared[uint32(st.Type)] = "NFS"
	defer delete(shared, uint32(st.Type))
	require.ErrorContains(t, peer.Fails(t, b, request("x"), driver.ErrRefused), "shared file system (NFS)")
}

// Another number of permits is refused while one is held, and accepted afterwards.
func TestAnotherNumberOfPermits(t *testing.T) {
	dir := t.TempDir()
	a, b := backend(t, dir), backend(t, dir)
	for _, n := range []int{3, 2, 4} {
		lease := peer.Takes(t, a, permitOf("x", n))
		for _, other := range []int{1, n - 1, n + 1} {
			peer.Fails(t, b, permitOf("x", other), driver.ErrRefused, driver.ErrInvalidOption)
		}
		for range n - 1 {
			peer.Takes(t, b, permitOf("x", n))
		}
		peer.Fails(t, a, permitOf("x", n), driver.ErrHeld)
		require.Equal(t, n, openLocks(dir))
		release(t, lease)
		require.NoError(t, b.Close())
		b = backend(t, dir)
	}
}

// Nobody is refused because others ask for the same new number at the same time, or inspect the name.
func TestConcurrentChangeOfPermits(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for n := range 20 {
		for range 4 {
			b := backend(t, dir)
			all.Go(func() {
				lease, err := b.TryAcquire(t.Context(), permitOf("x", n+1))
				if err == nil {
					err = errors.Join(peer.ErrOf(b.Inspect(t.Context(), "x")), lease.Release(t.Context()))
				}
				assert.True(t, err == nil || errors.Is(err, driver.ErrHeld), err)
			})
		}
		all.Wait()
	}
	gate := peer.Must(openLock(filepath.Join(dir, gateName("x")), os.O_RDWR))(t)
	for range 3000 { // to different numbers
		end := time.Now().Add(100 * time.Microsecond)
		for _, n := range []int{3, 16} {
			all.Go(func() {
				for more := true; more; more = time.Now().Before(end) {
					assert.NoError(t, gate.writeLine(gateLine("x", n)))
				}
			})
		}
		all.Wait()
		_, n := gate.readLine()
		require.Contains(t, []int{3, 16}, n)
	}
}

// A program that shares a lock (flock -s, the guard of a killed reader) excludes writers but not readers, and is seen.
func TestForeignReader(t *testing.T) {
	dir := t.TempDir()
	b := backend(t, dir)
	f := peer.Must(os.Create(filepath.Join(dir, FileName("x"))))(t)
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_SH))
	peer.Fails(t, b, request("x"), driver.ErrHeld)
	require.Equal(t, driver.Status{Name: "x", Held: true, Foreign: true, Shared: true, Waiters: -1}, peer.Shows(t, b, "x"))
	peer.Fails(t, b, reading("x"), driver.ErrHeld) // no token was written yet
	require.NoError(t, f.Close())

	first, second := peer.Takes(t, b, reading("x")), peer.Takes(t, b, reading("x"))
	release(t, first)
	require.NoError(t, os.Remove(filepath.Join(dir, numbered("x", reader, 1)))) // as prune removes files that no reader uses
	require.Equal(t, second.Grant().Token, peer.Shows(t, b, "x").Token)
}
