//go:build linux || darwin || freebsd

package file

import (
	"errors"
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
func openLock(path string, flag int) (*lockFile, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.EMLINK) { // FreeBSD's answer to a link
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = notALock(path, "it is not a regular file")
	case flag&os.O_RDWR == 0: // any user's file may be read
	case ownerOf(info) != os.Geteuid():
		err = notALock(path, fmt.Sprintf("it belongs to user %d, and this is user %d", ownerOf(info), os.Geteuid()))
	case info.Sys().(*syscall.Stat_t).Nlink > 1:
		err = notALock(path, "it has another name (a hard link)")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &lockFile{File: f, info: info, slot: -1}, nil
}

func notALock(path, why string) error {
	return fmt.Errorf("%w: %s cannot be a lock file: %s; find out who made it, and remove it", driver.ErrRefused, path, why)
}

// tryLock locks f exclusively for this descriptor. driver.ErrHeld: another has locked it.
func (f *lockFile) tryLock() error { return f.flock(syscall.LOCK_EX | syscall.LOCK_NB) }

// tryShare is tryLock for a shared lock. It gives up a lock that f has first.
func (f *lockFile) tryShare() error { return f.flock(syscall.LOCK_SH | syscall.LOCK_NB) }

// unlock unlocks f, also for copies of the descriptor in other processes.
func (f *lockFile) unlock() error { return f.flock(syscall.LOCK_UN) }

func (f *lockFile) flock(how int) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), how); err {
		case nil:
			return nil
		case syscall.EWOULDBLOCK:
			return driver.ErrHeld
		case syscall.EINTR:
		default:
			return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

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
