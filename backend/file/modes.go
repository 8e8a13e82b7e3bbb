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

// A writer locks the file of the name alone, readers lock it shared. The record in it is of the last writer; each reader has a file of its own for its
// record, which it locks alone for as long as it reads. That file is for Inspect: it decides nothing.
//
// Who has a permit has locked one of the name's files of permits alone. A further file, the gate, says how many there are, and has the turnstile of those
// that wait.

// mostReaders is how many files of readers a name has at most.
const mostReaders = 1 << 16

// beWriter makes l a writer's, whose file is locked alone.
func (l *lease) beWriter(now time.Time) error {
	token, at, err := draw(l.file, l.info, now)
	if err != nil {
		return err
	}
	l.grant.Token = token
	return l.write(record{held: true, token: token, since: now, owner: l.req.Owner}, at, nameLine(l.req.Name))
}

// beReader makes l a reader's, whose file is locked shared, unless it is locked alone by another meanwhile.
func (l *lease) beReader(now time.Time) (granted bool, err error) {
	last, at, err := readRecord(l.file)
	switch {
	case err != nil:
		return false, err
	case at < 0: // somebody has to write a first record, alone
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
		return l.beReader(now) // a writer may have come and gone between the two locks
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
	l.note, _, err = l.backend.takeFree(l.req.Name, reader, 0, mostReaders)
	if err != nil || l.note == nil {
		return false, err
	}
	_, at, err = readRecord(l.note.file)
	if err == nil {
		err = l.note.write(record{held: true, token: l.grant.Token, since: now, owner: l.req.Owner}, at, nameLine(l.req.Name))
	}
	if err != nil {
		l.note.unlock(false)
	}
	return err == nil, err
}

// takePermit gives l, whose file is that of all permits, the file of a free one instead.
func (l *lease) takePermit(now time.Time) (granted bool, err error) {
	if err := l.agree(now); err != nil {
		return false, err
	}
	b, n := l.backend, l.req.Permits
	slot, i, err := b.takeFree(l.req.Name, permit, rand.N(n), n)
	if err != nil || slot == nil {
		return false, err
	}
	now = time.Now() // no earlier than the file, which may be new
	token, at, err := draw(slot.file, slot.info, now)
	for other := range n {
		if err == nil && other != i {
			token, err = b.after(token, numbered(stem(l.req.Name), permit, other+1))
		}
	}
	token += uint64(n) - (token+uint64(n-i))%uint64(n) // of claims at the same time, each has a remainder of its own
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

// after is token, or one more than that of the last holder of another permit, if that is greater.
func (b *Backend) after(token uint64, file string) (uint64, error) {
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

// agree makes sure that the file of all permits says how many the name has. Nobody locks it: what claims that come at the same time write is the same, unless
// they ask for different numbers. Then only the next claim is told.
func (l *lease) agree(now time.Time) error {
	_, n, ok := readName(l.file, filepath.Base(l.path))
	switch {
	case ok && n == l.req.Permits && now.Sub(l.info.ModTime()) < pruneEvery:
		return nil
	case ok && n != l.req.Permits:
		if err := l.backend.isUnused(l.req.Name, n); err != nil {
			return err
		}
	}
	return writeLine(l.file, gateLine(l.req.Name, l.req.Permits))
}

// isUnused makes sure that nobody has one of the n permits of name.
func (b *Backend) isUnused(name string, n int) error {
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

// takeFree locks one of count files of a kind that nobody has locked, the i-th, in turn from the first-th. Both count from 0. nil: there is none.
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

// lockFree locks the file at path, which it makes where there is none. nil: somebody has locked it.
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
