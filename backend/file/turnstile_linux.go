package file

import "syscall"

// The turnstile is an open file description lock (F_OFD_SETLK) on the first byte of the lock file. Local file systems keep such locks apart from
// those of flock(2), which alone decide who holds the name: the turnstile only tells which waiter is next. Without it a busy process would take a
// file again as soon as it released it, and starve others. It ends with its process.
const (
	hasTurnstile = true

	ofdGetLock = 36 // F_OFD_GETLK
	ofdSetLock = 37 // F_OFD_SETLK
)

func (f *lockFile) turnstile(cmd int, kind int16) (*syscall.Flock_t, error) {
	lock := &syscall.Flock_t{Type: kind, Len: 1}
	return lock, syscall.FcntlFlock(f.Fd(), cmd, lock)
}

// takeTurnstile makes f the next one if there is none.
func (f *lockFile) takeTurnstile() { _, _ = f.turnstile(ofdSetLock, syscall.F_WRLCK) }

// leaveTurnstile lets another waiter be next, if f is.
func (f *lockFile) leaveTurnstile() { _, _ = f.turnstile(ofdSetLock, syscall.F_UNLCK) }

// isTurnstileTaken reports whether another file than f is next. On a file system without such locks, none is.
func (f *lockFile) isTurnstileTaken() bool {
	lock, err := f.turnstile(ofdGetLock, syscall.F_WRLCK)
	return err == nil && lock.Type != syscall.F_UNLCK
}
