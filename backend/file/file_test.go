package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/file"
	"github.com/lockport/lockport/driver"
)

var owners atomic.Uint64

// request returns a claim of name by a new owner.
func request(name string) driver.Request {
	return driver.Request{Name: name, Owner: fmt.Sprintf("%032x:test/%d", owners.Add(1), os.Getpid()), TTL: 10 * time.Second}
}

func queued(name string) driver.Request {
	req := request(name)
	req.Queue = true
	return req
}

func backend(t testing.TB, dir string) *file.Backend {
	t.Helper()
	b, err := file.NewBackend(file.Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func claim(t testing.TB, b driver.Backend, req driver.Request) driver.Lease {
	t.Helper()
	lease, err := b.TryAcquire(t.Context(), req)
	require.NoError(t, err)
	return lease
}

func release(t testing.TB, lease driver.Lease) {
	t.Helper()
	require.NoError(t, lease.Release(t.Context()))
}

func requireHeld(t testing.TB, b driver.Backend, req driver.Request) {
	t.Helper()
	lease, err := b.TryAcquire(t.Context(), req)
	require.ErrorIs(t, err, driver.ErrHeld)
	require.Nil(t, lease)
}

// wait claims req as the client does: repeatedly, as often as the driver asks.
func wait(ctx context.Context, b driver.Backend, req driver.Request) (driver.Lease, error) {
	for {
		lease, err := b.TryAcquire(ctx, req)
		var held *driver.HeldError
		if !errors.As(err, &held) {
			return lease, err
		}
		select {
		case <-time.After(held.Poll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// lockFile returns the only lock file in dir.
func lockFile(t testing.TB, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

// openFiles returns how many files this process has open.
func openFiles(t testing.TB) int {
	t.Helper()
	fds, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	return len(fds)
}

// restingFiles is openFiles after pruning, which briefly opens some.
func restingFiles(t testing.TB) (n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := n
		n = openFiles(t)
		return n == before
	}, 5*time.Second, 50*time.Millisecond)
	return n
}

// requireOpenFiles waits until this process has want files open: pruning briefly opens some.
func requireOpenFiles(t testing.TB, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return openFiles(t) == want }, 5*time.Second, time.Millisecond)
}

// A waiter whose file is replaced waits for the new one, whether the old one is locked or free.
func TestWaiterFollowsReplacement(t *testing.T) {
	for _, free := range []bool{false, true} {
		dir := t.TempDir()
		a, b, c := backend(t, dir), backend(t, dir), backend(t, dir)
		old := claim(t, a, request("x"))
		req := queued("x")
		requireHeld(t, b, req)
		require.NoError(t, os.Remove(lockFile(t, dir)))
		lease := claim(t, c, request("x"))
		if free {
			require.ErrorIs(t, old.Release(t.Context()), driver.ErrLost)
		}
		requireHeld(t, b, req)
		release(t, lease)
		release(t, claim(t, b, req))
	}
}

func TestClose(t *testing.T) {
	dir := t.TempDir()
	before := restingFiles(t)
	a, b := backend(t, dir), backend(t, dir)
	lease := claim(t, a, request("x"))
	claim(t, b, request("y"))
	requireHeld(t, a, queued("y"))
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	require.ErrorIs(t, lease.Release(t.Context()), driver.ErrLost)
	_, err := a.TryAcquire(t.Context(), request("x"))
	require.ErrorIs(t, err, driver.ErrRefused)
	claim(t, b, request("x"))
	require.NoError(t, b.Close())
	requireOpenFiles(t, before)
}

// ErrHeld names the file's holder.
func TestHeldErrorNamesTheHolder(t *testing.T) {
	dir := t.TempDir()
	req := request("x")
	req.Owner += "/test/00"
	lease := claim(t, backend(t, dir), req)
	c, err := file.New(file.Options{Dir: dir})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.TryAcquire(t.Context(), "x")
	var held *lockport.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, []any{req.Owner, os.Getpid()}, []any{held.Owner, held.PID})
	require.EqualValues(t, lease.Grant().Token*driver.TokensPerGrant, held.Token)
	require.WithinDuration(t, time.Now(), held.Since, 10*time.Second)
}
