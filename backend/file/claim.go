package file

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport/driver"
)

const (
	// A waiter tries again after a random time between these: that soon it takes over a released or dead lock.
	minPoll = 10 * time.Millisecond
	maxPoll = 30 * time.Millisecond
)

// overtakeAfter is how often a waiter that is not next tries anyway, in case the next one has been stopped. Tests change it.
var overtakeAfter = 250 * time.Millisecond

// waiter is the state of a waiting claim between its attempts.
type waiter struct {
	file  *lockFile
	next  bool      // it has the file's turnstile: no waiter overtakes it
	tried time.Time // when it last tried to lock the file, or began
}

// TryAcquire implements driver.Backend. With req.Queue, a claim that finds the name held keeps the file open and its turn, until it is granted or
// abandoned.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	key := keyOf(req)
	if l := b.held[key]; l != nil {
		return l, nil // granted before
	}
	w := b.waiting[key]
	if w == nil {
		w = &waiter{tried: time.Now()}
	}
	delete(b.waiting, key)
	l, err := b.attempt(req, w)
	switch {
	case err == nil:
		b.held[key] = l
		b.watch()
		return l, nil
	case req.Queue && hasTurnstile && errors.Is(err, driver.ErrHeld):
		b.waiting[key] = w
	default:
		w.close()
	}
	return nil, b.dir.explain(err)
}

// attempt tries once to lock the file of req. On success the lease gets the file; otherwise it stays in w. The caller holds mu.
func (b *Backend) attempt(req driver.Request, w *waiter) (*lease, error) {
	path := b.path(FileName(req.Name))
	if req.Permits > 0 {
		path = b.path(gateName(req.Name))
	}
	f, err := lockAt(path, w.file, func(f *lockFile) error {
		w.next = w.next && f == w.file // a new file has another turnstile
		w.file = f
		return w.try(req)
	})
	var l *lease
	if w.file = f; err == nil {
		l, err = b.grant(req, w)
	}
	if !errors.Is(err, driver.ErrHeld) {
		return l, err
	}
	if req.Queue && !w.next {
		w.next = w.file.takeTurnstile()
	}
	held := &driver.HeldError{Poll: minPoll + rand.N(maxPoll-minPoll)}
	if r := &w.file.record; w.file.read() == nil && r.held {
		held.Holder = driver.Status{Owner: r.owner, Token: r.token, Since: r.since}
	}
	return nil, held
}

// try locks w's file, unless another waiter is next. A claim that does not wait takes a free lock anyway. A reader does not: it would keep out a
// writer that is next.
func (w *waiter) try(req driver.Request) error {
	now := time.Now()
	overtakes := false
	if (req.Queue || req.Shared) && !w.next {
		overtakes = w.file.isTurnstileTaken()
		if overtakes && (!req.Queue || now.Sub(w.tried) < overtakeAfter) {
			return driver.ErrHeld
		}
	}
	w.tried = now
	switch {
	case req.Permits > 0:
		return w.file.tryShare() // so that prune does not remove it; further files are to be locked
	case req.Shared && overtakes: // only if the name is free: a writer that is next may be waiting for readers to end
		if err := w.file.tryLock(); err != nil {
			return err
		}
	}
	if req.Shared {
		return w.file.tryShare()
	}
	return w.file.tryLock()
}

// grant makes a lease of w's locked file.
func (b *Backend) grant(req driver.Request, w *waiter) (*lease, error) {
	own, r, err := w.file, record{}, error(nil)
	switch {
	case req.Permits > 0:
		own, r, err = b.takePermit(own, req)
	case req.Shared:
		own, r, err = b.takeReader(own, req)
	default:
		r, err = own.next()
	}
	if r.owner = req.Owner; err == nil {
		err = own.write(r, req.Name)
	}
	if err != nil {
		if own != nil && own != w.file {
			own.close()
		}
		_ = w.file.unlock()
		return nil, err
	}
	if w.file.info.Size() == 0 { // a new file
		b.prune(time.Now())
	}
	if w.next {
		w.file.leaveTurnstile()
	}
	l := &lease{backend: b, req: req, main: w.file, own: own}
	l.grant = driver.Grant{Token: r.token, Contended: w.file.isTurnstileTaken()}
	if req.Permits > 0 {
		l.main = own
		w.close() // the gate
	}
	return l, nil
}

// close closes w's file, if any, which gives up w's turn.
func (w *waiter) close() {
	if w.file != nil {
		w.file.close()
	}
}
