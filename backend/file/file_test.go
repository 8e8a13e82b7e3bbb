package file

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

func reading(name string) driver.Request {
	req := request(name)
	req.Shared = true
	return req
}

func permitOf(name string, n int) driver.Request {
	req := request(name)
	req.Permits = n
	return req
}

// nobodyOvertakes stops waiters from overtaking the next one, until the test ends.
func nobodyOvertakes(t *testing.T) {
	before := overtakeAfter
	t.Cleanup(func() { overtakeAfter = before })
	overtakeAfter = time.Hour
}

func backend(t testing.TB, dir string) *Backend {
	t.Helper()
	b, err := NewBackend(Options{Dir: dir})
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

// A waiter whose file is replaced waits for the new one, whether the old one is locked or free.
func TestWaiterFollowsReplacement(t *testing.T) {
	for _, free := range []bool{false, true} {
		dir := t.TempDir()
		a, b, c := backend(t, dir), backend(t, dir), backend(t, dir)
		old := claim(t, a, request("x"))
		req := queued("x")
		requireHeld(t, b, req)
		require.NoError(t, os.Remove(filepath.Join(dir, FileName("x"))))
		lease := claim(t, c, request("x"))
		if free {
			require.ErrorIs(t, old.Release(t.Context()), driver.ErrLost)
		}
		requireHeld(t, b, req)
		release(t, lease)
		release(t, claim(t, b, req))
	}
}
