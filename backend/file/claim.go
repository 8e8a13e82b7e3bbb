package file

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
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

// claim is a claim that the backend has in claims, and its lease once granted. Then its fields do not change.
type claim struct {
	backend *Backend
	req     driver.Request
	tried   time.Time // when it last tried to lock main, or began
	grant   driver.Grant

	main *lockFile // the file that it tries to lock, once that is open; once granted, the locked file: that of the name, or of one of its permits
	own  *lockFile // has the record: main, or a reader's own file; nil: not granted
}

// TryAcquire implements driver.Backend. With req.Queue, a claim that finds the name held keeps the file open and its turn, until it is granted or
// abandoned.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	c := b.claims[req.Owner]
	switch {
	case c == nil:
		c = &claim{backend: b, tried: time.Now()}
		b.claims[req.Owner] = c
	case c.own != nil:
		return c, nil // granted before
	}
	c.req = req
	err := c.attempt()
	if err == nil {
		b.watch()
		return c, nil
	}
	if errors.Is(err, driver.ErrHeld) {
		err = c.main.heldError()
		if req.Queue && hasTurnstile {
			c.main.takeTurnstile()
			return nil, err
		}
	}
	b.end(c)
	return nil, b.dir.explain(err)
}

// heldError says who has f, as far as its record tells.
func (f *lockFile) heldError() error {
	held := &driver.HeldError{Poll: minPoll + rand.N(maxPoll-minPoll)}
	if r := &f.record; f.read() == nil && r.held {
		held.Holder = driver.Status{Owner: r.owner, Token: r.token, Since: r.since}
	}
	return held
}

// attempt tries to lock main, and what else c needs. After an error nothing is locked.
func (c *claim) attempt() (err error) {
	path := c.backend.path(FileName(c.req.Name))
	if c.req.Permits > 0 {
		path = c.backend.path(gateName(c.req.Name))
	}
	if c.main, err = lockAt(path, c.main, c.lock); err != nil {
		return err
	}
	own, r, err := c.main, record{}, error(nil)
	switch {
	case c.req.Permits > 0:
		own, r, err = c.takePermit()
	case c.req.Shared:
		own, r, err = c.takeReader()
	default:
		r, err = own.next()
	}
	if r.owner = c.req.Owner; err == nil {
		err = own.write(r, c.req.Name)
	}
	if err != nil {
		if own != c.main {
			own.close()
		}
		_ = c.main.unlock()
		return err
	}
	f, now := c.main, time.Now()
	f.leaveTurnstile()
	c.own, c.grant = own, driver.Grant{Token: r.token, Contended: f.isTurnstileTaken()}
	if c.req.Permits > 0 {
		c.main = own
		f.close() // the gate
	}
	if f.info.Size() == 0 { // a new file
		c.backend.prune(now)
	}
	if now.Sub(f.info.ModTime()) > pruneEvery { // otherwise a gate, or a file of readers, that only short holds use would look unused
		c.touch(now)
	}
	return nil
}

// lock locks f for c, unless another waiter is next. A claim that does not wait takes a free lock anyway. A reader does not: it would keep out a
// writer that is next.
func (c *claim) lock(f *lockFile) error {
	now := time.Now()
	overtakes := (c.req.Queue || c.req.Shared) && f.isTurnstileTaken()
	if overtakes && (!c.req.Queue || now.Sub(c.tried) < overtakeAfter) {
		return driver.ErrHeld
	}
	c.tried = now
	if c.req.Shared && overtakes { // only if the name is free: a writer that is next may be waiting for readers to end
		if err := f.tryLock(); err != nil {
			return err
		}
	}
	if c.req.Shared || c.req.Permits > 0 { // a gate: prune must not remove it while further files are locked
		return f.tryShare()
	}
	return f.tryLock()
}

// touch gives the files of c the time now, so that they look used.
func (c *claim) touch(now time.Time) {
	for _, path := range []string{c.main.Name(), c.own.Name(), c.backend.path(gateName(c.req.Name))} { // there may be no gate
		_ = os.Chtimes(path, now, now)
	}
}

// Grant implements driver.Lease. Until is zero: the claim ends only with the process, or with its file.
func (c *claim) Grant() driver.Grant { return c.grant }

// As implements driver.LeaseAs: it sets a **os.File to the locked file. You can pass that to a child process, which then shares the lock. The lock
// lasts until it is released, or both processes have ended. The file must not be closed or written to.
func (c *claim) As(target any) bool {
	f, ok := target.(**os.File)
	if ok {
		*f = c.main.File
	}
	return ok
}

// Release implements driver.Lease. It ignores ctx, since it never waits.
func (c *claim) Release(context.Context) error {
	b := c.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	here, err := c.main.isHere()
	if !b.end(c) || !here && err == nil {
		return c.lostError()
	}
	return nil
}

func (c *claim) lostError() error {
	return fmt.Errorf("%w: the lock file %s was removed or replaced", driver.ErrLost, c.main.Name())
}

// end ends c if it has not ended, and reports that. The caller holds mu.
func (b *Backend) end(c *claim) bool {
	if b.claims[c.req.Owner] != c {
		return false
	}
	delete(b.claims, c.req.Owner)
	if c.own != nil {
		c.own.free()
	}
	if c.main != c.own {
		c.main.close()
	}
	return true
}
