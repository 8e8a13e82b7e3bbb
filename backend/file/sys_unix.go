//go:build linux || darwin || freebsd

package file

import (
	"io/fs"
	"os"
	"syscall"
)

// errUnsupported is why this system cannot hold locks.
var errUnsupported error

// openLock opens a lock file, which it makes if there is none: never with O_EXCL, since whether the file exists means nothing. A
// child process does not inherit it (package os sets O_CLOEXEC), and a link is not followed.
func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
}

// openToLook opens a lock file to read it.
func openToLook(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
}

// tryFlock locks f for this descriptor alone, and says whether it could.
func tryFlock(f *os.File) (bool, error) { return flock(f, syscall.LOCK_EX|syscall.LOCK_NB) }

// isFlocked says that somebody has locked f. It takes a shared lock for a moment, which a claim that comes just then finds held.
func isFlocked(f *os.File) (bool, error) {
	free, err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	if free {
		err = unflock(f)
	}
	return !free, err
}

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

// ownerOf is the user id of a file's owner.
func ownerOf(fi fs.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// isForAll says that path is a folder of root's in which this user may make files by the right that all users have, or as root:
// not by that of a group, which the same user may have in one session and not in the other.
func isForAll(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil || !fi.IsDir() || ownerOf(fi) != 0 {
		return false
	}
	forAll := fi.Mode()&fs.ModeSticky != 0 && fi.Mode().Perm()&0o003 == 0o003
	const writeAndSearch = 2 | 1
	return (forAll || os.Geteuid() == 0) && syscall.Access(path, writeAndSearch) == nil // not on a read-only file system
}
