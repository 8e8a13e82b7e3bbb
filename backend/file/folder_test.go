//go:build linux || darwin || freebsd

package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestDefaultDir(t *testing.T) {
	for _, name := range []string{"HOME", "TMPDIR", "XDG_RUNTIME_DIR", "USER"} {
		t.Setenv(name, t.TempDir())
	}
	uid := fmt.Sprint("lockport-", os.Geteuid())
	require.Contains(t, []string{"/run/lock/" + uid, "/tmp/" + uid}, DefaultDir())
}

// The default folder is created, and refused if another user could change its contents.
func TestOwnFolder(t *testing.T) {
	parent := t.TempDir()
	try := func(name string) error { return (&folder{path: filepath.Join(parent, name), own: true}).prepare() }
	require.NoError(t, try("new"))
	require.Equal(t, fs.ModeDir|0o700, peer.Must(os.Lstat(filepath.Join(parent, "new")))(t).Mode())
	require.NoError(t, try("new"))

	require.NoError(t, os.Symlink("new", filepath.Join(parent, "link")))
	require.ErrorIs(t, try("link"), driver.ErrRefused)
	require.NoError(t, os.WriteFile(filepath.Join(parent, "file"), nil, 0o700))
	require.ErrorIs(t, try("file"), driver.ErrRefused)
	for _, mode := range []fs.FileMode{0o720, 0o702, 0o777 | fs.ModeSticky} {
		require.NoError(t, os.Chmod(filepath.Join(parent, "new"), mode))
		require.ErrorIs(t, try("new"), driver.ErrRefused, mode)
	}
	if os.Geteuid() == 0 {
		require.NoError(t, os.Mkdir(filepath.Join(parent, "theirs"), 0o700))
		require.NoError(t, os.Chown(filepath.Join(parent, "theirs"), 12345, -1))
		require.ErrorIs(t, try("theirs"), driver.ErrRefused)
	}

	require.NoError(t, os.Chmod(parent, 0o777))
	require.ErrorIs(t, try("another"), driver.ErrRefused)
	require.NoError(t, os.Chmod(parent, 0o777|fs.ModeSticky))
	require.NoError(t, try("another"))
}

// What another user may have put in place of a lock file is refused, and not touched.
func TestForeignFileInPlaceOfALock(t *testing.T) {
	write := func(path string) error { return os.WriteFile(path, []byte("data"), 0o600) }
	all := map[string]func(path string) error{
		"it is not a regular file": func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"a symbolic link or":       func(path string) error { return os.Symlink(path+"2", path) },
		"it has another name":      func(path string) error { return errors.Join(write(path+"2"), os.Link(path+"2", path)) },
		"is a directory":           func(path string) error { return os.Mkdir(path, 0o700) },
		"must be allowed to write": func(path string) error { return os.WriteFile(path, nil, 0o400) },
	}
	if os.Geteuid() == 0 { // root may write to every file, and can change its owner
		delete(all, "must be allowed to write")
		all["it belongs to user 12345"] = func(path string) error { return errors.Join(write(path), os.Chown(path, 12345, -1)) }
	}
	for what, put := range all {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), FileName("job"))
			require.NoError(t, put(path))
			require.ErrorContains(t, peer.Fails(t, backend(t, filepath.Dir(path)), request("job"), driver.ErrRefused), what)
			if text, err := os.ReadFile(path + "2"); err == nil {
				require.Equal(t, "data", string(text))
			}
		})
	}
}

// A release before the loss was noticed finds it, and Lost is not called afterwards. The default folder is created again after its removal.
func TestReleaseFindsLoss(t *testing.T) {
	b := backend(t, t.TempDir())
	b.dir.path, b.dir.own, b.timer = filepath.Join(b.dir.path, "own"), true, new(time.Timer) // no check runs
	one := peer.Takes(t, b, permitOf("x", 1))
	require.NoError(t, os.Remove(b.path(numbered("x", permit, 1))))
	require.ErrorIs(t, one.Release(t.Context()), driver.ErrLost)
	l, _, told := watched(t, b, "x")
	require.NoError(t, os.RemoveAll(b.dir.path))
	for range 2 {
		require.ErrorIs(t, l.Release(t.Context()), driver.ErrLost)
	}
	require.Empty(t, b.claims, "the next check would find the loss again")
	require.Empty(t, told)
	peer.Takes(t, b, l.(*claim).req)
	require.ErrorIs(t, l.Release(t.Context()), driver.ErrLost)
	require.Len(t, b.claims, 1, "a late release ended the next claim")
}

func TestGivenFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	b := backend(t, dir)
	for range 2 {
		require.ErrorContains(t, peer.Fails(t, b, request("x"), driver.ErrRefused), "mkdir")
		require.ErrorIs(t, peer.ErrOf(b.Check(t.Context())), driver.ErrRefused)
	}
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	require.ErrorIs(t, peer.ErrOf(b.Check(t.Context())), driver.ErrRefused)
	require.NoError(t, errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700)))
	peer.Takes(t, b, request("x"))
	require.Len(t, namesIn(t, dir), 1)
	require.ErrorContains(t, peer.ErrOf(NewBackend(Options{Dir: "relative"})), "absolute")
}

func TestNotices(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "locks")
	require.NoError(t, os.Mkdir(dir, 0o700))
	ids := func() []string { return peer.Notices(t, "file://"+dir) }
	require.Empty(t, ids())
	require.NoError(t, os.Chmod(dir, 0o777))
	require.Contains(t, ids(), "folder-mode")
	require.NoError(t, os.Chmod(outer, 0o777))
	require.Contains(t, ids(), "folder-path")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	require.Contains(t, peer.Notices(t, "file://"+link), "folder-path", "of the folder that the link leads to")
	require.NoError(t, os.Chmod(outer, 0o777|os.ModeSticky))
	require.NotContains(t, ids(), "folder-path")
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, 12345, -1))
		require.Contains(t, ids(), "folder-owner")
	}
	require.Empty(t, namesIn(t, dir), "Check left a file")
}

// Each file system error has its class and is one line.
func TestExplain(t *testing.T) {
	d := &folder{path: "/locks"}
	for errno, want := range map[syscall.Errno]error{
		syscall.ENOENT: driver.ErrRefused, syscall.ENOTDIR: driver.ErrRefused, syscall.ELOOP: driver.ErrRefused,
		syscall.EACCES: driver.ErrRefused, syscall.EPERM: driver.ErrRefused, syscall.EROFS: driver.ErrRefused,
		syscall.ENOSYS: driver.ErrRefused, syscall.EOPNOTSUPP: driver.ErrRefused,
		syscall.ENOSPC: driver.ErrUnavailable, syscall.EDQUOT: driver.ErrUnavailable, syscall.EMFILE: driver.ErrUnavailable,
		syscall.ENFILE: driver.ErrUnavailable, syscall.ENOLCK: driver.ErrUnavailable, syscall.EIO: driver.ErrUnavailable,
	} {
		err := d.explain(&fs.PathError{Op: "open", Path: "/locks/x", Err: errno})
		require.ErrorIs(t, err, want, errno)
		require.ErrorIs(t, err, errno)
		require.NotContains(t, err.Error(), "\n")
	}
	require.NoError(t, d.explain(nil))
}
