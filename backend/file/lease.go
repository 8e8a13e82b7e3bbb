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

// lease is a claim whose file is locked: it is so for as long as the backend has it in held. Its fields do not change.
type lease struct {
	*lockedFile // of the name, or of one of its permits
	backend     *Backend
	req         driver.Request
	grant       driver.Grant
	note        *lockedFile // where a reader writes that it is one; nil: it is none
}

// lockedFile is a file that is locked, and its record.
type lockedFile struct {
	path   string
	file   *os.File
	info   os.FileInfo // of file, to compare with what is at path
	record record
	slot   int // where record stands
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

// freshen has the files of the lease look used.
func (l *lease) freshen(now time.Time) {
	paths := []string{l.path}
	switch {
	case l.note != nil:
		paths = append(paths, l.note.path)
	case l.req.Permits > 0:
		paths = append(paths, filepath.Join(filepath.Dir(l.path), gateName(l.req.Name)))
	}
	for _, path := range paths {
		_ = os.Chtimes(path, now, now)
	}
}

// unlock ends the lease. write says that its file still is what counts.
func (l *lease) unlock(write bool) {
	if l.note != nil {
		l.note.unlock(true)
		write = false // the record is a writer's
	}
	l.lockedFile.unlock(write)
}

// isHere reports whether the locked file still is at its path. An error other than that nothing is there says nothing.
func (f *lockedFile) isHere() bool {
	fi, err := os.Lstat(f.path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	return os.SameFile(fi, f.info)
}

// write writes r, and line, which says whose file it is, where that is missing. at is the slot of the record that counts so far.
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

// unlock writes, if it is to, that the lock is free, for people to read, and frees it. What is locked is decided by the lock alone, so a record
// that cannot be written is no error. The lock is removed first, since a child that is just being started has a copy of the
// descriptor until it executes its program.
func (f *lockedFile) unlock(write bool) {
	if write {
		free := f.record
		free.held = false
		_, _ = writeRecord(f.file, free, f.slot)
	}
	_ = unflock(f.file)
	_ = f.file.Close()
}
