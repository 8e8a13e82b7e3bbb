package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lockport/lockport/driver"
)

// lease is a claim whose file is locked while the backend has it in held. Its fields do not change.
type lease struct {
	*lockedFile // of the name, or of one of its permits
	backend     *Backend
	req         driver.Request
	grant       driver.Grant
	readerFile  *lockedFile // a reader's own record; nil: not a reader
}

// lockedFile is a locked file, and its record.
type lockedFile struct {
	path   string
	file   *os.File
	info   os.FileInfo // of file, to compare with the file at path
	record record
	slot   int // of record
}

// Grant implements driver.Lease. Until is zero: the claim ends only with the process, or with its file.
func (l *lease) Grant() driver.Grant { return l.grant }

// As implements driver.LeaseAs: it sets a **os.File to the locked file. You can pass that to a child process, which then shares the lock. The lock
// lasts until it is released, or both processes have ended. The file must not be closed or written to.
func (l *lease) As(target any) bool {
	f, ok := target.(**os.File)
	if ok {
		*f = l.file
	}
	return ok
}

// Release implements driver.Lease. It ignores ctx, since it never waits.
func (l *lease) Release(context.Context) error {
	b := l.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.end(l) {
		return l.lostError()
	}
	here := l.isHere()
	if l.unlock(here); !here {
		return l.lostError()
	}
	return nil
}

// end removes l from held, and reports whether it was there. The caller holds mu.
func (b *Backend) end(l *lease) bool {
	key := keyOf(l.req)
	mine := b.held[key] == l
	if mine {
		delete(b.held, key)
	}
	return mine
}

// lostError returns why a lost lease is lost.
func (l *lease) lostError() error {
	return fmt.Errorf("%w: the lock file %s was removed or replaced", driver.ErrLost, l.path)
}

// touch gives the lease's files the time now, so that they look used.
func (l *lease) touch(now time.Time) {
	paths := []string{l.path}
	switch {
	case l.readerFile != nil:
		paths = append(paths, l.readerFile.path)
	case l.req.Permits > 0:
		paths = append(paths, filepath.Join(filepath.Dir(l.path), gateName(l.req.Name)))
	}
	for _, path := range paths {
		_ = os.Chtimes(path, now, now)
	}
}

// unlock ends the lease. write: its file still counts.
func (l *lease) unlock(write bool) {
	if l.readerFile != nil {
		l.readerFile.unlock(true)
		write = false // the name's record is a writer's
	}
	l.lockedFile.unlock(write)
}

// isHere reports whether the locked file is still at its path. Errors other than its absence prove nothing.
func (f *lockedFile) isHere() bool {
	fi, err := os.Lstat(f.path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	return os.SameFile(fi, f.info)
}

// write writes r, and line, the file's description, if that is missing. at is the slot of the current record.
func (f *lockedFile) write(r record, at int, line string) (err error) {
	if f.info.Size() != int64(headerSize+len(line)) {
		if err := writeLine(f.file, line); err != nil {
			return err
		}
	}
	f.record = r
	f.slot, err = writeRecord(f.file, r, at)
	return err
}

// unlock frees the lock, and first, if write is set, records it as free, for people to read. An error of that is ignored: only the lock counts. The
// lock is freed before the file is closed: a child process that is being started has a copy of the descriptor until it executes its program.
func (f *lockedFile) unlock(write bool) {
	if write {
		free := f.record
		free.held = false
		_, _ = writeRecord(f.file, free, f.slot)
	}
	_ = unflock(f.file)
	_ = f.file.Close()
}
