package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/lockport/lockport/driver"
)

// lease is a claim whose file is locked: it is so for as long as the backend has it in held. Its fields do not change.
type lease struct {
	backend *Backend
	req     driver.Request
	path    string
	file    *os.File
	info    os.FileInfo // of file, to compare with what is at path
	grant   driver.Grant
	record  record
	slot    int // where record stands
}

// Grant implements driver.Lease. Until is zero: the claim ends only with the process, or with its file.
func (l *lease) Grant() driver.Grant { return l.grant }

// As implements driver.LeaseAs: it sets a **os.File to the locked file, for example to pass it to a child process, which then shares
// the lock: it stays locked until that has ended too or the lock is released. The file must not be closed or written to.
func (l *lease) As(target any) bool {
	f, ok := target.(**os.File)
	if ok {
		*f = l.file
	}
	return ok
}

// Release implements driver.Lease. It is carried out whatever ctx says, since nothing in it waits.
func (l *lease) Release(context.Context) error {
	b := l.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.end(l) {
		return l.gone()
	}
	here := l.isHere()
	if l.unlock(here); !here {
		return l.gone()
	}
	return nil
}

// end takes l out of what is held, and reports whether it was there. The caller has the mutex.
func (b *Backend) end(l *lease) bool {
	key := keyOf(l.req)
	mine := b.held[key] == l
	if mine {
		delete(b.held, key)
	}
	return mine
}

// gone is why a lost lease is lost.
func (l *lease) gone() error {
	return fmt.Errorf("%w: the lock file %s was removed or replaced", driver.ErrLost, l.path)
}

// isHere reports whether the locked file still is at its path. An error other than that nothing is there says nothing.
func (l *lease) isHere() bool {
	fi, err := os.Lstat(l.path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	return os.SameFile(fi, l.info)
}

// unlock writes that the lock is free, for people to read, and frees it. What is locked is decided by the lock alone, so a record
// that cannot be written is no error. The lock is removed first, since a child that is just being started has a copy of the
// descriptor until it executes its program.
func (l *lease) unlock(write bool) {
	if write {
		free := l.record
		free.held = false
		_, _ = writeRecord(l.file, free, l.slot)
	}
	_ = unflock(l.file)
	_ = l.file.Close()
}
