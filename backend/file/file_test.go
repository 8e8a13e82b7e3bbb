package file_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
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

// request is a claim of name by a new owner.
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

// wait claims req as the client does: again and again, as often as the driver says.
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

// lockFile is the only lock file in dir.
func lockFile(t testing.TB, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

// openFiles is how many files this process has open, without those that pruning opens for moments.
func openFiles(t testing.TB) int {
	t.Helper()
	least := math.MaxInt
	for range 5 {
		fds, err := os.ReadDir("/dev/fd")
		require.NoError(t, err)
		least = min(least, len(fds))
		time.Sleep(time.Millisecond)
	}
	return least
}

func TestExclusionAndTokens(t *testing.T) {
	dir := t.TempDir()
	a, b := backend(t, dir), backend(t, dir)
	before := openFiles(t)

	first := claim(t, a, request("x"))
	require.True(t, first.Grant().Until.IsZero())
	requireHeld(t, b, request("x"))
	requireHeld(t, a, request("x")) // a descriptor of its own, in the same process
	other := claim(t, b, request("y"))

	release(t, first)
	second := claim(t, b, request("x"))
	require.Greater(t, second.Grant().Token, first.Grant().Token)

	require.ErrorIs(t, first.Release(t.Context()), driver.ErrLost) // late: the second holder keeps it
	requireHeld(t, a, request("x"))
	release(t, second)
	release(t, other)
	require.Equal(t, before, openFiles(t))
}

// The same owner again is the same lease, not a second one.
func TestSameOwner(t *testing.T) {
	a := backend(t, t.TempDir())
	req := request("x")
	lease := claim(t, a, req)
	require.Same(t, lease, claim(t, a, req))
	require.NoError(t, a.Abandon(t.Context(), req))
	require.NoError(t, a.Abandon(t.Context(), req))
	release(t, claim(t, a, request("x")))
}

// A claim that waits keeps one descriptor and stands before those that come later; Abandon gives both up.
func TestQueue(t *testing.T) {
	dir := t.TempDir()
	a, b, c := backend(t, dir), backend(t, dir), backend(t, dir)
	if !a.Capabilities().Queue {
		t.Skip("no turnstile on this system")
	}
	holder := claim(t, a, request("x"))
	require.False(t, holder.Grant().Contended)
	before := openFiles(t)
	next, later := queued("x"), queued("x")
	for range 3 {
		requireHeld(t, b, next)
		requireHeld(t, c, later)
	}
	require.Equal(t, before+2, openFiles(t))

	release(t, holder)
	again := queued("x")
	requireHeld(t, a, again) // the one that has just released it does not overtake
	requireHeld(t, c, later)
	lease := claim(t, b, next)
	require.False(t, lease.Grant().Contended, "nobody has looked again since")
	requireHeld(t, c, later) // it is next now
	requireHeld(t, a, again)
	release(t, lease)
	requireHeld(t, a, again)
	require.NoError(t, c.Abandon(t.Context(), later))
	lease = claim(t, a, again)
	release(t, lease)
	require.Equal(t, before-1, openFiles(t))

	// A single attempt does not queue, and does not wait for those who do.
	holder = claim(t, a, request("x"))
	requireHeld(t, b, queued("x"))
	release(t, holder)
	lease = claim(t, c, request("x"))
	require.True(t, lease.Grant().Contended)
	release(t, lease)
}

// A waiter that is next but does not come holds up the others for a moment only.
func TestStoppedWaiterIsOvertaken(t *testing.T) {
	dir := t.TempDir()
	a, b := backend(t, dir), backend(t, dir)
	holder := claim(t, a, request("x"))
	requireHeld(t, b, queued("x"))
	release(t, holder)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	lease, err := wait(ctx, a, queued("x"))
	require.NoError(t, err)
	release(t, lease)
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

// A claim whose context has ended leaves nothing once it is abandoned, also if it is on its way then.
func TestCancelled(t *testing.T) {
	dir := t.TempDir()
	a, b := backend(t, dir), backend(t, dir)
	before := openFiles(t)
	for range 500 {
		ctx, cancel := context.WithCancel(t.Context())
		req := queued("x")
		under := make(chan struct{})
		go func() {
			defer close(under)
			_, _ = a.TryAcquire(ctx, req)
		}()
		cancel()
		require.NoError(t, a.Abandon(t.Context(), req))
		lease, err := wait(t.Context(), b, request("x"))
		require.NoError(t, err)
		<-under
		release(t, lease)
	}
	require.Equal(t, before, openFiles(t))
}

func TestClose(t *testing.T) {
	dir := t.TempDir()
	before := openFiles(t)
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
	require.Equal(t, before, openFiles(t))
}

func TestAs(t *testing.T) {
	a := backend(t, t.TempDir())
	lease := claim(t, a, request("x"))
	var f *os.File
	require.True(t, lease.(driver.LeaseAs).As(&f))
	fi, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 0o600, fi.Mode().Perm())
	var s string
	require.False(t, lease.(driver.LeaseAs).As(&s))
}

func TestInspect(t *testing.T) {
	dir := t.TempDir()
	a, b := backend(t, dir), backend(t, dir)
	st, err := b.Inspect(t.Context(), "jobs/x")
	require.NoError(t, err)
	require.Equal(t, driver.Status{Name: "jobs/x", Waiters: -1}, st)

	req := request("jobs/x")
	lease := claim(t, a, req)
	claim(t, a, request("other"))
	st, err = b.Inspect(t.Context(), "jobs/x")
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), st.Since, time.Minute)
	want := driver.Status{Name: "jobs/x", Held: true, Owner: req.Owner, Token: lease.Grant().Token, Since: st.Since, Waiters: -1}
	require.Equal(t, want, st)
	all, err := b.List(t.Context(), "jobs/")
	require.NoError(t, err)
	require.Equal(t, []driver.Status{want}, all)
	all, err = b.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, all, 2)

	release(t, lease)
	st, err = b.Inspect(t.Context(), "jobs/x")
	require.NoError(t, err)
	require.False(t, st.Held)
}

// ErrHeld says who has the file: not who died with it, where a program has locked it since that does not write.
func TestHeldErrorNamesTheHolder(t *testing.T) {
	dir := t.TempDir()
	host, err := os.Hostname()
	require.NoError(t, err)
	holder := func(pid int) *lockport.HeldError {
		t.Helper()
		req := request("x")
		req.Owner = fmt.Sprintf("%032x:%s/%d/test/00", owners.Add(1), host, pid)
		lease := claim(t, backend(t, dir), req)
		defer release(t, lease)
		c, err := file.New(file.Options{Dir: dir})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.TryAcquire(t.Context(), "x")
		var held *lockport.HeldError
		require.ErrorAs(t, err, &held)
		if held.Owner != "" {
			require.Equal(t, req.Owner, held.Owner)
			require.EqualValues(t, lease.Grant().Token*driver.TokensPerGrant, held.Token)
			require.WithinDuration(t, time.Now(), held.Since, 10*time.Second)
		}
		return held
	}
	require.Equal(t, os.Getpid(), holder(os.Getpid()).PID)
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	require.Empty(t, holder(dead.Process.Pid).Owner)
}
