package file

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// watched claims name in b, and returns its file and the channel of its loss.
func watched(t *testing.T, b *Backend, name string) (driver.Lease, string, <-chan error) {
	t.Helper()
	told := make(chan error, 2)
	req := request(name)
	req.Lost = func(err error) { told <- err }
	return peer.Takes(t, b, req), filepath.Join(b.dir.path, FileName(name)), told
}

// The suite removes and replaces files.
func TestLoss(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, path string){
		"link": func(t *testing.T, path string) {
			require.NoError(t, os.Rename(path, path+".old"))
			require.NoError(t, os.Symlink(path+".old", path))
		},
		"folder replaced": func(t *testing.T, path string) {
			dir := filepath.Dir(path)
			require.NoError(t, os.Rename(dir, dir+".old"))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "locks")
			require.NoError(t, os.Mkdir(dir, 0o700))
			b := backend(t, dir)
			lease, path, told := watched(t, b, "x")
			peer.Until(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return !b.touched.IsZero() }) // a first check found it
			remove(t, path)
			require.ErrorIs(t, peer.Eventually(t, told), driver.ErrLost)
			require.Empty(t, b.claims)
			for range 2 {
				require.ErrorIs(t, lease.Release(t.Context()), driver.ErrLost)
			}
			require.Empty(t, told)
		})
	}
}

// Files held for long, also those of readers and permits, do not look unused, nor does a gate, or a file of readers, that only short holds use.
func TestFilesAreFreshened(t *testing.T) {
	dir := t.TempDir()
	b := backend(t, dir)
	watched(t, b, "y")
	peer.Takes(t, b, reading("x"))
	peer.Takes(t, b, permitOf("x", 3))
	files := namesIn(t, dir)
	require.Len(t, files, 5)
	for _, touched := range []time.Duration{-24 * time.Hour, 24 * time.Hour} { // the latter before the clock was set back
		old := time.Now().Add(-24 * time.Hour)
		for _, name := range files {
			require.NoError(t, os.Chtimes(filepath.Join(dir, name), old, old))
		}
		b.mu.Lock()
		b.touched = time.Now().Add(touched)
		b.mu.Unlock()
		b.checkFiles()
		for _, name := range files {
			require.WithinDuration(t, time.Now(), peer.Must(os.Stat(filepath.Join(dir, name)))(t).ModTime(), time.Minute, name)
		}
	}
	for file, req := range map[string]driver.Request{gateName("x"): permitOf("x", 3), FileName("x"): reading("x")} {
		path, old := b.path(file), time.Now().Add(-2*pruneEvery)
		require.NoError(t, os.Chtimes(path, old, old))
		peer.Takes(t, b, req)
		require.WithinDuration(t, time.Now(), peer.Must(os.Stat(path))(t).ModTime(), time.Minute, file)
	}
}

// When a new file is created, files unused for a week are removed, and no others. Tokens go on rising.
func TestUnusedFilesAreRemoved(t *testing.T) {
	b := backend(t, t.TempDir())
	old := time.Now().Add(-7*24*time.Hour - time.Minute)
	token := uint64(0)
	for _, name := range []string{"held", "unused", "used"} {
		lease, path, _ := watched(t, b, name)
		b.pruning.Wait()
		token = lease.Grant().Token
		if name != "held" {
			release(t, lease)
		}
		at := map[bool]time.Time{false: old, true: old.Add(time.Hour)}[name == "used"]
		require.NoError(t, os.Chtimes(path, at, at))
	}
	foreign := filepath.Join(b.dir.path, "Cargo.lock")
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))
	require.NoError(t, os.Chtimes(foreign, old, old))
	require.NoError(t, os.Mkdir(filepath.Join(b.dir.path, "folder.lock"), 0o700))
	files := func() string {
		return regexp.MustCompile(`-\w+\.lock`).ReplaceAllString(fmt.Sprint(namesIn(t, b.dir.path)), "")
	}
	_, _, _ = watched(t, b, "new")
	b.pruning.Wait()
	require.Equal(t, "[Cargo.lock folder.lock held new unused used]", files(), "this process has just pruned")

	gate := peer.Must(openLock(b.path(gateName("x")), os.O_RDWR|os.O_CREATE))(t)
	require.NoError(t, (&claim{req: permitOf("x", 2)}).lock(gate))
	remove := func(f *lockFile) error { return b.remove(f, time.Now().Add(2*unused)) }
	require.ErrorIs(t, b.look(gateName("x"), os.O_RDWR, remove), driver.ErrHeld)
	require.NoError(t, os.Remove(gate.Name()), "it was removed, but a claim is about to record its number of permits")
	waiting := queued("unused")
	other := backend(t, b.dir.path)
	lease, path, _ := watched(t, b, "unused")
	peer.Fails(t, other, waiting, driver.ErrHeld)
	release(t, lease)
	ahead := b.path(FileName("ahead")) // as if the clock was set back
	put(t, ahead, record{token: uint64(time.Now().Add(unused).UnixMicro())})
	require.NoError(t, os.Chtimes(ahead, old, old))
	require.NoError(t, os.Chtimes(path, old, old))
	b.dir.pruned = time.Time{}
	_, _, _ = watched(t, b, "newer")
	b.pruning.Wait()
	require.Equal(t, "[Cargo.lock ahead folder.lock held new newer used]", files())
	require.Len(t, peer.Lists(t, b, ""), 3)
	require.Greater(t, peer.Takes(t, other, waiting).Grant().Token, token) // it has the removed file open
	peer.Fails(t, b, request("unused"), driver.ErrHeld)

	holder := peer.Takes(t, b, permitOf("x", 2))
	require.NoError(t, b.look(gateName("x"), os.O_RDWR, remove))
	require.FileExists(t, gate.Name(), "the permit's holder may have been stopped for days")
	release(t, holder)
	require.NoError(t, b.look(gateName("x"), os.O_RDWR, remove))
	require.NoFileExists(t, gate.Name())
}
