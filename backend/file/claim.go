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

// TryAcquire implements driver.Backend. With req.Queue, a claim that finds the name held keeps the file open and its turn, until it is granted or
// abandoned.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	if l := b.held[req.Owner]; l != nil {
		return l, nil // granted before
	}
	path := b.path(FileName(req.Name))
	if req.Permits > 0 {
		path = b.path(gateName(req.Name))
	}
	var l *lease
	f, err := lockAt(path, b.waiting[req.Owner], func(f *lockFile) error { return f.try(req) })
	delete(b.waiting, req.Owner)
	if err == nil {
		l, err = b.grant(req, f)
	}
	if err == nil {
		b.held[req.Owner] = l
		b.watch()
		return l, nil
	}
	if errors.Is(err, driver.ErrHeld) {
		err = f.heldError()
		if req.Queue && hasTurnstile {
			f.takeTurnstile()
			b.waiting[req.Owner] = f
			return nil, err
		}
	}
	f.close()
	return nil, b.dir.explain(err)
}

// try locks f for req, unless another waiter is next. A claim that does not wait takes a free lock anyway. A reader does not: it would keep out a
// writer that is next.
func (f *lockFile) try(req driver.Request) error {
	now := time.Now()
	overtakes := (req.Queue || req.Shared) && f.isTurnstileTaken()
	if overtakes && (!req.Queue || now.Sub(f.tried) < overtakeAfter) {
		return driver.ErrHeld
	}
	f.tried = now
	if req.Shared && overtakes { // only if the name is free: a writer that is next may be waiting for readers to end
		if err := f.tryLock(); err != nil {
			return err
		}
	}
	if req.Shared || req.Permits > 0 { // a gate: prune must not remove it while further files are locked
		return f.tryShare()
	}
	return f.tryLock()
}

// heldError says who has f, as far as its record tells.
func (f *lockFile) heldError() error {
	held := &driver.HeldError{Poll: minPoll + rand.N(maxPoll-minPoll)}
	if r := &f.record; f.read() == nil && r.held {
		held.Holder = driver.Status{Owner: r.owner, Token: r.token, Since: r.since}
	}
	return held
}

// grant makes a lease of f, which req has locked. After an error f is unlocked.
func (b *Backend) grant(req driver.Request, f *lockFile) (*lease, error) {
	own, r, err := f, record{}, error(nil)
	switch {
	case req.Permits > 0:
		own, r, err = b.takePermit(f, req)
	case req.Shared:
		own, r, err = b.takeReader(f, req)
	default:
		r, err = f.next()
	}
	if r.owner = req.Owner; err == nil {
		err = own.write(r, req.Name)
	}
	if err != nil {
		if own != f {
			own.close()
		}
		_ = f.unlock()
		return nil, err
	}
	if f.info.Size() == 0 { // a new file
		b.prune(time.Now())
	}
	f.leaveTurnstile()
	l := &lease{backend: b, req: req, main: f, own: own}
	l.grant = driver.Grant{Token: r.token, Contended: f.isTurnstileTaken()}
	if req.Permits > 0 {
		l.main = own
		f.close() // the gate
	}
	return l, nil
}
