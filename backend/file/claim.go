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
	path := filepath.Join(b.dir.path, FileName(req.Name))
	for range maxReplaced {
		if w.file == nil {
			f, err := openLock(path, os.O_RDWR|os.O_CREATE)
			if err != nil {
				return nil, err
			}
			w.file = f
		}
		locked, err := w.try(req.Queue)
		if err != nil {
			return nil, err
		}
		fi, here := isAt(w.file, path)
		switch {
		case !here:
			w.close() // it was removed or replaced before: whoever has locked it, that means nothing
		case !locked:
			held := &driver.HeldError{Poll: minPoll + rand.N(maxPoll-minPoll)}
			if r, _, err := readRecord(w.file); err == nil && r.isOfHolder() {
				held.Holder = driver.Status{Owner: r.owner, Token: r.token, Since: r.since}
			}
			return nil, held
		default:
			l, err := b.grant(req, w, path, fi)
			if err != nil {
				_ = unflock(w.file)
			}
			return l, err
		}
	}
	return nil, fmt.Errorf("%w: the lock file %s is being replaced again and again", driver.ErrUnavailable, path)
}

// try locks w's file, unless w is to wait and somebody else is next.
func (w *waiter) try(queue bool) (bool, error) {
	now := time.Now()
	if queue && !w.next {
		if w.tried.IsZero() {
			w.tried = now
		}
		if now.Sub(w.tried) < overtake && isTurnstileTaken(w.file) {
			return false, nil
		}
	}
	w.tried = now
	locked, err := tryFlock(w.file)
	if err == nil && !locked && queue && !w.next {
		w.next = takeTurnstile(w.file)
	}
	return locked, err
}

// grant makes the lease of w's file, which is locked and of which fi is known, and takes the file from w.
func (b *Backend) grant(req driver.Request, w *waiter, path string, fi os.FileInfo) (*lease, error) {
	r, slot, err := draw(w.file, fi, req, time.Now())
	if err != nil {
		return nil, err
	}
	if fi.Size() == 0 { // it is new
		b.prune(time.Now())
	}
	if w.next {
		leaveTurnstile(w.file)
	}
	l := &lease{backend: b, req: req, path: path, file: w.file, info: fi, record: r, slot: slot}
	l.grant = driver.Grant{Token: r.token, Contended: isTurnstileTaken(l.file)}
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
