package file

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/lockport/lockport/driver"
)

// lockFile is an open lock file. Its Name is its path.
type lockFile struct {
	*os.File
	info   os.FileInfo // when it was opened
	record record      // the current one, as last read or written
	slot   int         // of record; -1: neither slot is valid
}

// isHere reports whether f is still the file at its path. An error proves nothing.
func (f *lockFile) isHere() (bool, error) {
	fi, err := os.Lstat(f.Name())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil && os.SameFile(fi, f.info), err
}

// maxReplaced bounds how often in a row a file may be replaced between opening and locking it.
const maxReplaced = 20

// lockAt has try lock the file at path. f is that file if it is open; otherwise lockAt opens it, and creates it if it is missing. The outcome for a
// file that was removed or replaced before means nothing: then lockAt tries the new one. The caller closes the file returned, if any.
func lockAt(path string, f *lockFile, try func(*lockFile) error) (_ *lockFile, err error) {
	for range maxReplaced {
		if f == nil {
			if f, err = openLock(path, os.O_RDWR|os.O_CREATE); err != nil {
				return nil, err
			}
		}
		outcome := try(f)
		if here, err := f.isHere(); here || err != nil {
			return f, cmp.Or(err, outcome)
		}
		f.close()
		f = nil
	}
	return nil, fmt.Errorf("%w: the lock file %s keeps being replaced", driver.ErrUnavailable, path)
}

// read reads the current record.
func (f *lockFile) read() error {
	header := make([]byte, headerSize)
	n, err := f.ReadAt(header, 0)
	if err != nil && err != io.EOF {
		return err
	}
	f.record, f.slot = record{}, -1
	for i := range n / slotSize {
		if r, ok := decode(header[i*slotSize : (i+1)*slotSize]); ok && r.newer(f.record) {
			f.record, f.slot = r, i
		}
	}
	return nil
}

// next returns the record of the next holder of f, which is locked exclusively. Its token is greater than the last one and the one after that, which
// readers have. A new, removed or damaged file has no last record. Then the clock, unless it was set back, makes the token greater than all earlier
// ones: each is at least the microseconds since 1970 when it was drawn.
func (f *lockFile) next() (record, error) {
	now := time.Now()
	if err := f.read(); err != nil {
		return record{}, err
	}
	if f.slot < 0 {
		fi, err := f.Stat()
		if err != nil {
			return record{}, err
		}
		if written := fi.ModTime(); written.After(now) {
			return record{}, fmt.Errorf("%w: %s holds no valid token and was written at %s, in the future: the clock was set "+
				"back; set it right, or remove the file if nothing remembers its tokens", driver.ErrRefused, f.Name(), written.Format(time.RFC3339))
		}
	}
	return record{held: true, token: max(f.record.token+2, uint64(max(now.UnixMicro(), 1))), since: now}, nil
}

// write writes r into the slot that is not current, and the line of name if it is missing.
func (f *lockFile) write(r record, name string) error {
	if r.token > driver.MaxToken {
		return fmt.Errorf("%w: the token in %s is the greatest possible", driver.ErrRefused, f.Name())
	}
	if line := nameLine(name); f.info.Size() != int64(headerSize+len(line)) {
		if err := f.writeLine(line); err != nil {
			return err
		}
	}
	return f.writeRecord(r)
}

func (f *lockFile) writeRecord(r record) error {
	f.record, f.slot = r, (f.slot+1)%2
	_, err := f.WriteAt(r.encode(), int64(f.slot)*slotSize)
	return err
}

// free records the lock as free, for people to read, and frees it. An error of the record is ignored: only the lock counts.
func (f *lockFile) free() {
	free := f.record
	free.held = false
	_ = f.writeRecord(free)
	f.close()
}

// close frees the lock and the turn before it closes the file: a child process that is being started has a copy of the descriptor until it executes
// its program. nil: there is nothing to close.
func (f *lockFile) close() {
	if f != nil {
		f.leaveTurnstile()
		_ = f.unlock()
		_ = f.Close()
	}
}

// nameLine is the line after the slots.
func nameLine(name string) string { return strconv.Quote(name) + "\n" }

// gateLine is that line in the gate of a name's permits.
func gateLine(name string, permits int) string { return fmt.Sprintf("%q permits=%d\n", name, permits) }

// writeLine writes line in one step, so that claims can write different ones to a gate at the same time. What was after it stays, and means nothing.
func (f *lockFile) writeLine(line string) error {
	_, err := f.WriteAt([]byte(line), headerSize)
	return err
}

// readLine reads the lock's name from a lock file, and from a gate also the number of permits. name is empty if f is neither, or its line is damaged.
func (f *lockFile) readLine() (name string, permits int) {
	line := make([]byte, len(gateLine("", driver.MaxPermits))+4*driver.MaxNameLength)
	n, _ := f.ReadAt(line, headerSize)
	_, _ = fmt.Sscanf(string(line[:n]), "%q permits=%d", &name, &permits)
	switch file := filepath.Base(f.Name()); {
	case permits == 0 && file == FileName(name), 0 < permits && permits <= driver.MaxPermits && file == gateName(name):
		return name, permits
	}
	return "", 0
}
