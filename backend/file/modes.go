package file

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/lockport/lockport/driver"
)

// A writer locks the file of the name exclusively, readers lock it shared. Its record is that of the last writer. Each reader locks a file of its
// own, exclusively, with its record. That file is for Inspect: it decides nothing.
//
// The holder of a permit locks one of the name's permit files exclusively. A further file, the gate, records the number of permits, and has the
// turnstile of the waiters.

// mostReaders is the greatest number of reader files of a name.
const mostReaders = 1 << 16

// grantWriter grants l, whose file is locked exclusively, to a writer.
func (l *lease) grantWriter(now time.Time) error {
	token, at, err := draw(l.file, l.info, now)
	if err != nil {
		return err
	}
	l.grant.Token = token
	return l.write(record{held: true, token: token, since: now, owner: l.req.Owner}, at, nameLine(l.req.Name))
}

// grantReader grants l, whose file is locked shared, to a reader, unless another claim locks it exclusively meanwhile.
func (l *lease) grantReader(now time.Time) (granted bool, err error) {
	last, at, err := readRecord(l.file)
	switch {
	case err != nil:
		return false, err
	case at < 0: // it writes a first record, locked exclusively
		if free, err := tryFlock(l.file); err != nil || !free {
			return false, err
		}
		token, at, err := draw(l.file, l.info, now)
		if err == nil {
			err = l.write(record{token: token, since: now, owner: l.req.Owner}, at, nameLine(l.req.Name))
		}
		if err != nil {
			return false, err
		}
		if locked, err := tryShared(l.file); err != nil || !locked {
			return false, err
		}
		return l.grantReader(now) // a writer may have come and gone between the locks
	case last.held || now.Sub(l.info.ModTime()) > pruneEvery: // a writer died, or the file would look unused. All readers write the same.
		last.held = false
		if at, err = writeRecord(l.file, last, at); err != nil {
			return false, err
		}
	}
	l.record, l.slot, l.grant.Token = last, at, last.token+1
	if l.grant.Token > driver.MaxToken {
		return false, tooGreat(l.file)
	}
	l.readerFile, _, err = l.backend.takeFree(l.req.Name, reader, 0, mostReaders)
	if err != nil || l.readerFile == nil {
		return false, err
	}
	_, at, err = readRecord(l.readerFile.file)
	if err == nil {
		err = l.readerFile.write(record{held: true, token: l.grant.Token, since: now, owner: l.req.Owner}, at, nameLine(l.req.Name))
	}
	if err != nil {
		l.readerFile.unlock(false)
	}
	return err == nil, err
}

// grantPermit gives l, whose file is the gate, the file of a free permit instead.
func (l *lease) grantPermit(now time.Time) (granted bool, err error) {
	if err := l.setPermits(now); err != nil {
		return false, err
	}
	b, n := l.backend, l.req.Permits
	slot, i, err := b.takeFree(l.req.Name, permit, rand.N(n), n)
	if err != nil || slot == nil {
		return false, err
	}
	now = time.Now() // not before the time of the file, which may be new
	token, at, err := draw(slot.file, slot.info, now)
	for other := range n {
		if err == nil && other != i {
			token, err = b.tokenAfter(token, numbered(stem(l.req.Name), permit, other+1))
		}
	}
	token += uint64(n) - (token+uint64(n-i))%uint64(n) // concurrent claims differ in the remainder
	if err == nil && token > driver.MaxToken {
		err = tooGreat(slot.file)
	}
	if err == nil {
		err = slot.write(record{held: true, token: token, since: now, owner: l.req.Owner}, at, nameLine(l.req.Name))
	}
	if err != nil {
		slot.unlock(false)
		return false, err
	}
	l.lockedFile, l.grant.Token = slot, token
	return true, nil
}

// tokenAfter returns token, or one more than that of file's last holder if that is greater.
func (b *Backend) tokenAfter(token uint64, file string) (uint64, error) {
	f, err := openLock(filepath.Join(b.dir.path, file), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return token, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	last, _, err := readRecord(f)
	return max(token, last.token+1), err
}

// setPermits makes sure that the gate records req's number of permits. Nobody locks the gate: concurrent claims write the same, unless they ask for
// different numbers. Then only the next claim is refused.
func (l *lease) setPermits(now time.Time) error {
	_, n, ok := readName(l.file, filepath.Base(l.path))
	switch {
	case ok && n == l.req.Permits && now.Sub(l.info.ModTime()) < pruneEvery:
		return nil
	case ok && n != l.req.Permits:
		if err := l.backend.checkUnused(l.req.Name, n); err != nil {
			return err
		}
	}
	return writeLine(l.file, gateLine(l.req.Name, l.req.Permits))
}

// checkUnused returns an error if one of the n permits of name is held.
func (b *Backend) checkUnused(name string, n int) error {
	for i := range n {
		f, err := lockFree(filepath.Join(b.dir.path, numbered(stem(name), permit, i+1)))
		if err != nil {
			return err
		}
		if f == nil {
			return fmt.Errorf("%w: %w: the name has %d permits", driver.ErrRefused, driver.ErrInvalidOption, n)
		}
		f.unlock(false)
	}
	return nil
}

// takeFree locks one of the count files of a kind that is not locked, beginning with number first, and returns its number i. Both count from 0. nil:
// there is none.
func (b *Backend) takeFree(name, kind string, first, count int) (f *lockedFile, i int, err error) {
	stem := stem(name)
	for tried := range count {
		i = (first + tried) % count
		f, err = lockFree(filepath.Join(b.dir.path, numbered(stem, kind, i+1)))
		if f != nil || err != nil {
			break
		}
	}
	return f, i, err
}

// lockFree locks the file at path, and creates it if it is missing. nil: it is locked already.
func lockFree(path string) (*lockedFile, error) {
	for range maxReplaced {
		f, err := openLock(path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		locked, err := tryFlock(f)
		fi, here := isAt(f, path)
		if here && locked && err == nil {
			return &lockedFile{path: path, file: f, info: fi}, nil
		}
		if f.Close(); here || err != nil {
			return nil, err
		}
	}
	return nil, nil
}
