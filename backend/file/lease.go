package file

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/lockport/lockport/driver"
)

// lease is a claim whose file is locked.
type lease struct {
	backend *Backend
	req     driver.Request
	path    string
	file    *os.File
	info    os.FileInfo // of file, to compare with what is at path
	grant   driver.Grant
	record  record
	slot    int // where record stands

	state state // guarded by backend.mu
}

type state int

const (
	held state = iota
	released
	lost
)

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

// Renew implements driver.Lease. There is nothing to prolong.
func (l *lease) Renew(context.Context) (time.Time, error) {
	l.backend.mu.Lock()
	defer l.backend.mu.Unlock()
	if l.state != held {
		return time.Time{}, l.gone()
	}
	return time.Time{}, nil
}

// Release implements driver.Lease. It is carried out whatever ctx says, since nothing in it waits.
func (l *lease) Release(context.Context) error {
	b := l.backend
	b.mu.Lock()
	before := l.state
	if before == held {
		l.state = released
		delete(b.held, keyOf(l.req))
	}
	b.mu.Unlock()
	switch {
	case before == lost:
		return l.gone()
	case before == released:
		return nil
	}
	here := l.isHere()
	l.unlock(here)
	if !here {
		b.mu.Lock()
		l.state = lost
		b.mu.Unlock()
		return l.gone()
	}
	return nil
}

// gone is why a lost lease is lost.
func (l *lease) gone() error {
	return fmt.Errorf("%w: the lock file %s was removed or replaced", driver.ErrLost, l.path)
}

// isHere says that the locked file still is at its path. An error other than that nothing is there says nothing.
func (l *lease) isHere() bool {
	fi, err := os.Lstat(l.path)
	if err != nil {
		return !isAbsent(err)
	}
	return os.SameFile(fi, l.info)
}

// unlock writes that the lock is free, for people to read, and frees it. What is locked is decided by the lock alone, so a record
// that cannot be written is no error. The lock is removed first, since a child that is just being started has a copy of the
// descriptor until it executes its program.
func (l *lease) unlock(write bool) {
	if write {
		l.record.held = false
		_, _ = writeRecord(l.file, l.record, l.slot)
	}
	_ = unflock(l.file)
	_ = l.file.Close()
}
