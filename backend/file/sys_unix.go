//go:build linux || darwin || freebsd

package file

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/lockport/lockport/driver"
)

// errUnsupported is why this system cannot hold locks.
var errUnsupported error

// openLock opens a lock file with flag, and with os.O_CREATE creates it if it is missing, never with O_EXCL: that a file exists means nothing. Child
// processes do not inherit it (package os sets O_CLOEXEC). It does not follow a link, or wait for a pipe's other end. It refuses what another user
// may have put there before touching it.
func openLock(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	switch err = syscall.Fstat(int(f.Fd()), &st); {
	case err != nil:
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		err = notALock(path, "it is not a regular file")
	case flag&os.O_RDWR == 0: // any user's file may be read
	case int(st.Uid) != os.Geteuid():
		err = notALock(path, fmt.Sprintf("it belongs to user %d, and this is user %d", st.Uid, os.Geteuid()))
	case st.Nlink > 1:
		err = notALock(path, "it has another name (a hard link)")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func notALock(path, why string) error {
	return fmt.Errorf("%w: %s cannot be a lock file: %s; find out who made it, and remove it", driver.ErrRefused, path, why)
}

// tryFlock locks f exclusively for this descriptor, and reports whether it could.
func tryFlock(f *os.File) (bool, error) { return flock(f, syscall.LOCK_EX|syscall.LOCK_NB) }

// tryShared locks f shared for this descriptor, and reports whether it could. It gives up a lock that f has first.
func tryShared(f *os.File) (bool, error) { return flock(f, syscall.LOCK_SH|syscall.LOCK_NB) }

// unflock frees f, also for copies of the descriptor in other processes.
func unflock(f *os.File) error {
	_, err := flock(f, syscall.LOCK_UN)
	return err
}

func flock(f *os.File, how int) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), how); err {
		case nil:
			return true, nil
		case syscall.EWOULDBLOCK:
			return false, nil
		case syscall.EINTR:
		default:
			return false, &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

// ownerOf returns the user id of a file's owner.
func ownerOf(fi fs.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// allMayWrite reports whether path is a folder of root's in which this user may create files, as root or by the right of all users: not by that of a
// group, which the same user may have in one session and not in another.
func allMayWrite(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil || !fi.IsDir() || ownerOf(fi) != 0 {
		return false
	}
	forAll := fi.Mode()&fs.ModeSticky != 0 && fi.Mode().Perm()&0o003 == 0o003
	const writeAndSearch = 2 | 1
	return (forAll || os.Geteuid() == 0) && syscall.Access(path, writeAndSearch) == nil // not on a read-only file system
}
