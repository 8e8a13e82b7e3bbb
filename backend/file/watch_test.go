package file

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// watched claims name in b and returns its file and where the loss is told.
func watched(t *testing.T, b *Backend, name string) (driver.Lease, string, <-chan error) {
	t.Helper()
	told := make(chan error, 2)
	req := driver.Request{Name: name, Owner: goldenOwner + name, TTL: time.Second, Lost: func(err error) { told <- err }}
	lease, err := b.TryAcquire(t.Context(), req)
	require.NoError(t, err)
	return lease, filepath.Join(b.dir.path, FileName(name)), told
}

func requireTold(t *testing.T, told <-chan error) {
	t.Helper()
	select {
	case err := <-told:
		require.ErrorIs(t, err, driver.ErrLost)
	case <-time.After(10 * time.Second):
		t.Fatal("the holder was not told")
	}
}

func fileOf(l driver.Lease) *os.File { return l.(*lease).file }

func newBackend(t *testing.T, dir string) *Backend {
	t.Helper()
	b, err := NewBackend(Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestLoss(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"replaced": func(t *testing.T, path string) {
			other := path + ".new"
			require.NoError(t, os.WriteFile(other, nil, 0o600))
			require.NoError(t, os.Rename(other, path))
		},
		"link": func(t *testing.T, path string) {
			require.NoError(t, os.Rename(path, path+".old"))
			require.NoError(t, os.Symlink(path+".old", path))
		},
		"folder moved": func(t *testing.T, path string) {
			dir := filepath.Dir(path)
			require.NoError(t, os.Rename(dir, dir+".old"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "locks")
			require.NoError(t, os.Mkdir(dir, 0o700))
			b := newBackend(t, dir)
			lease, path, told := watched(t, b, "x")
			remove(t, path)
			requireTold(t, told)
			for range 2 {
				require.ErrorIs(t, lease.Release(t.Context()), driver.ErrLost)
			}
			require.Empty(t, told)
		})
	}
}

// A release before the loss was noticed says that it came too late, and is not followed by being told.
func TestReleaseFindsLoss(t *testing.T) {
	b := newBackend(t, t.TempDir())
	lease, path, told := watched(t, b, "x")
	require.NoError(t, os.Remove(path))
	for range 2 {
		require.ErrorIs(t, lease.Release(t.Context()), driver.ErrLost)
	}
	b.look()
	require.Empty(t, told)
}

// In the steady state only the folder is looked at, and a loss is noticed all the same.
func TestLossInSteadyState(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	b := newBackend(t, t.TempDir())
	_, x, toldX := watched(t, b, "x")
	_, y, toldY := watched(t, b, "y")
	z, _, _ := watched(t, b, "z")
	require.NoError(t, z.Release(t.Context()))
	isSteady := func() bool {
		dir, err := os.Stat(b.dir.path)
		require.NoError(t, err)
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.watch.proves(dir)
	}
	require.False(t, isSteady())
	require.Eventually(t, isSteady, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, os.Remove(x))
	requireTold(t, toldX)
	require.Empty(t, toldY)

	// A lease that was granted since is not taken for looked at.
	require.Eventually(t, isSteady, 30*time.Second, 10*time.Millisecond)
	_, _, _ = watched(t, b, "z") // its file is there, so that the folder does not change
	require.False(t, isSteady())
	require.Eventually(t, isSteady, 30*time.Second, 10*time.Millisecond)

	// A folder that changed when its files were looked at may have changed once more in the same tick of its clock.
	b.mu.Lock()
	w := b.watch
	b.mu.Unlock()
	dir, err := os.Stat(b.dir.path)
	require.NoError(t, err)
	require.True(t, w.proves(dir))
	w.when = changed(dir).Add(time.Millisecond)
	require.False(t, w.proves(dir))

	// A clock that was set back does not make a change look old.
	b.mu.Lock()
	b.watch.when = b.watch.when.Add(time.Hour)
	b.mu.Unlock()
	require.NoError(t, os.Remove(y))
	requireTold(t, toldY)
}

// Nothing runs while nothing is held, and no goroutine while something is.
func TestNothingRuns(t *testing.T) {
	b := newBackend(t, t.TempDir())
	before := runtime.NumGoroutine()
	lease, _, _ := watched(t, b, "x")
	require.LessOrEqual(t, runtime.NumGoroutine(), before+1) // the look itself
	require.NoError(t, lease.Release(t.Context()))
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.watch.timer == nil
	}, 10*time.Second, time.Millisecond)
}

// The file of a lock that is held for long does not look abandoned, and says the same as before.
func TestFilesAreFreshened(t *testing.T) {
	b := newBackend(t, t.TempDir())
	lease, path, _ := watched(t, b, "x")
	before, _, err := readRecord(fileOf(lease))
	require.NoError(t, err)
	old := time.Now().Add(-24 * time.Hour)
	require.NoError(t, os.Chtimes(path, old, old))
	b.mu.Lock()
	b.watch.fresh = old
	b.mu.Unlock()
	b.look()
	fi, err := os.Stat(path)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), fi.ModTime(), time.Minute)
	after, _, err := readRecord(fileOf(lease))
	require.NoError(t, err)
	require.Equal(t, before, after)
}
