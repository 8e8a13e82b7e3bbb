package file

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/lockport/lockport/driver"
)

const (
	// A waiter looks again after a random time between these: so soon is a dead or released lock taken over.
	minPoll = 10 * time.Millisecond
	maxPoll = 30 * time.Millisecond
	// overtake is how often a waiter that is not next tries nevertheless, in case the one that is next has been stopped.
	overtake = 250 * time.Millisecond
	// maxReplaced bounds how often in a row a file may turn out to have been replaced between its opening and its locking.
	maxReplaced = 20
)

// waiter is what a waiting claim keeps between its attempts.
type waiter struct {
	file  *os.File
	next  bool      // it has the file's turnstile: no other waiter overtakes it
	tried time.Time // when it last tried to lock the file, or first found itself behind another
}

// TryAcquire implements driver.Backend. With req.Queue, a claim that finds the name held keeps the file open, and stands before
// those that come later, until it is granted or abandoned.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	key := keyOf(req)
	if l := b.held[key]; l != nil {
		return l, nil // it was granted before
	}
	w := b.waiting[key]
	if w == nil {
		w = new(waiter)
	}
	delete(b.waiting, key)
	l, err := b.attempt(req, w)
	switch {
	case err == nil:
		b.held[key] = l
		b.watch.start(b)
		return l, nil
	case req.Queue && hasTurnstile && errors.Is(err, driver.ErrHeld):
		b.waiting[key] = w
	default:
		w.close()
	}
	return nil, b.dir.explain(err)
}

// attempt tries once to lock the file of req. On success the file is the lease's; otherwise it stays in w. The caller has the mutex.
func (b *Backend) attempt(req driver.Request, w *waiter) (*lease, error) {
	path := filepath.Join(b.dir.path, mainFile(req))
	for range maxReplaced {
		if w.file == nil {
			f, err := openLock(path, os.O_RDWR|os.O_CREATE)
			if err != nil {
				return nil, err
			}
			w.file = f
		}
		locked, err := w.try(req)
		if err != nil {
			return nil, err
		}
		fi, here := isAt(w.file, path)
		if !here {
			w.close() // it was removed or replaced before: whoever has locked it, that means nothing
			continue
		}
		if locked {
			if l, err := b.grant(req, w, path, fi); l != nil || err != nil {
				return l, err
			}
		}
		if req.Queue && !w.next {
			w.next = takeTurnstile(w.file)
		}
		held := &driver.HeldError{Poll: minPoll + rand.N(maxPoll-minPoll)}
		if r, _, err := readRecord(w.file); err == nil && r.isOfHolder() {
			held.Holder = driver.Status{Owner: r.owner, Token: r.token, Since: r.since}
		}
		return nil, held
	}
	return nil, fmt.Errorf("%w: the lock file %s is being replaced again and again", driver.ErrUnavailable, path)
}

// try locks w's file, unless somebody else is next. A claim that does not wait takes what is free all the same; a reader's, which would keep out a writer
// that is next, does not.
func (w *waiter) try(req driver.Request) (bool, error) {
	now := time.Now()
	overtakes := false
	if (req.Queue || req.Shared) && !w.next {
		if w.tried.IsZero() {
			w.tried = now
		}
		if behind := isTurnstileTaken(w.file); behind && (!req.Queue || now.Sub(w.tried) < overtake) {
			return false, nil
		} else {
			overtakes = behind
		}
	}
	w.tried = now
	switch {
	case req.Permits > 0:
		return true, nil // it is one of further files that is to be locked
	case req.Shared && overtakes: // only where nobody has the name: a writer that is next may be waiting for readers
		if free, err := tryFlock(w.file); err != nil || !free {
			return false, err
		}
	}
	if req.Shared {
		return tryShared(w.file)
	}
	return tryFlock(w.file)
}

// grant makes the lease of w's file, which is locked and of which fi is known, and takes the file from w. nil without an error: it is not to be had now.
func (b *Backend) grant(req driver.Request, w *waiter, path string, fi os.FileInfo) (*lease, error) {
	now := time.Now()
	file := &lockedFile{path: path, file: w.file, info: fi}
	l := &lease{backend: b, req: req, lockedFile: file}
	var granted bool
	var err error
	switch {
	case req.Permits > 0:
		granted, err = l.takePermit(now)
	case req.Shared:
		granted, err = l.beReader(now)
	default:
		granted, err = true, l.beWriter(now)
	}
	if err != nil || !granted {
		_ = unflock(w.file)
		return nil, err
	}
	if fi.Size() == 0 { // it is new
		b.prune(now)
	}
	if w.next {
		leaveTurnstile(w.file)
	}
	l.grant.Contended = isTurnstileTaken(w.file)
	if l.lockedFile != file { // the gate
		file.unlock(false)
	}
	*w = waiter{}
	return l, nil
}

// close closes w's file, if there is one, which gives up w's turn.
func (w *waiter) close() {
	if w.file != nil {
		_ = w.file.Close()
	}
	*w = waiter{tried: w.tried}
}

// isAt reports whether f still is the file at path, and what is known of it.
func isAt(f *os.File, path string) (os.FileInfo, bool) {
	mine, err := f.Stat()
	if err != nil {
		return nil, false
	}
	there, err := os.Lstat(path)
	return mine, err == nil && os.SameFile(mine, there)
}
