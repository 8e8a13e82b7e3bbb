package session

import (
	"context"

	"github.com/lockport/lockport/driver"
)

// claim is a request for a name, and the lease if it was granted. It is in Backend.table for as long as its session has or may have its key, and in
// Backend.dead after that session has ended for us, until it is certain that it has ended at the server too. Guarded by Backend.mu.
type claim struct {
	b   *Backend
	s   *session
	key Key
	req driver.Request

	state   state
	wanted  bool          // somebody waits for the answer, or has the lease
	granted bool          // somebody has the lease
	err     error         // why it was not granted
	freed   bool          // it ended by being given back
	changed chan struct{} // if not nil: closed when state changes

	grant driver.Grant
	try   *call // nil: somebody has the lease, and nobody looks at it any more

	prev, next *claim // in session.claims
}

// state is what a claim is at the server.
type state uint8

const (
	asking state = iota // its Try is queued or under way
	held                // it has the key
	giving              // its Free is queued or under way
	orphan              // its session has ended for us: it may have the key for as long as the server does not know
	gone                // it certainly does not have the key
)

// claims is a list of the claims of a session.
type claims struct{ first *claim }

func (l *claims) add(c *claim) {
	if c.next = l.first; c.next != nil {
		c.next.prev = c
	}
	l.first = c
}

func (l *claims) remove(c *claim) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}

// claimOn begins a claim on s, which nobody else here may have, and queues its Try. mu is held.
func (b *Backend) claimOn(s *session, key Key, req *driver.Request, blocks bool) *claim {
	c := &claim{b: b, s: s, key: key, req: *req, wanted: true}
	k := b.newCall(Op{Kind: Try, Key: key, Name: req.Name, Owner: req.Owner})
	k.claim, k.blocks = c, blocks
	c.try = k
	b.table[key] = c
	s.claims.add(c)
	s.append(k)
	return c
}

// give says that somebody has the lease. mu is held.
func (c *claim) give() {
	c.granted = true
	c.b.freeCall(c.try)
	c.try = nil
}

// enter sets the state and tells those who wait for it. mu is held.
func (c *claim) enter(st state) {
	c.state = st
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// change waits until the state is not what it was when it was called. mu is held, but not meanwhile.
func (c *claim) change(ctx context.Context) error {
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.b.wait(ctx, c.changed)
}

// wait waits for over or the end of ctx, whose error it returns. mu is held, but not meanwhile.
func (b *Backend) wait(ctx context.Context, over <-chan struct{}) error {
	b.unlock()
	defer b.mu.Lock()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drop ends a claim that certainly does not have its key. mu is held.
func (b *Backend) drop(c *claim) {
	if b.table[c.key] == c {
		delete(b.table, c.key)
	}
	if b.dead[c.req.Owner] == c {
		delete(b.dead, c.req.Owner)
	}
	c.s.claims.remove(c)
	c.enter(gone)
}

// hint tells those here who want to know when key is free. mu is held.
func (b *Backend) hint(key Key) {
	if w := b.watches[key]; w != nil {
		b.wake(w)
	}
}

// bereave notes that the session of c has ended for us while c had or may have had its key. mu is held.
func (b *Backend) bereave(c *claim) {
	if c.s.buried {
		b.drop(c)
		return
	}
	delete(b.table, c.key)
	b.dead[c.req.Owner] = c
	c.enter(orphan)
	b.hint(c.key) // for others it is the server's affair now
}

// tried draws the conclusions from the end of a Try. mu is held.
func (b *Backend) tried(c *claim, err error, wasSent bool) {
	op := c.try.op
	switch {
	case err != nil && !wasSent:
		c.err = err
		b.drop(c)
	case err != nil:
		c.err = err
		b.bereave(c)
	case op.Err != nil:
		c.err = op.Err
		b.drop(c)
	case !op.OK:
		c.err = b.errHeld
		b.drop(c)
	case c.s.over != nil:
		c.err = unknown(c.s.over)
		b.bereave(c)
	case c.wanted:
		c.grant = driver.Grant{Token: op.Token, Until: c.s.until(), Contended: op.Contended}
		c.enter(held)
	default:
		c.queueFree()
	}
	if c.state == gone && !c.wanted {
		b.hint(c.key) // others here were refused because of it
	}
}

// queueFree queues the Free of a claim that has its key, and for which the caller is to start the session. mu is held.
func (c *claim) queueFree() *call {
	k := c.b.newCall(Op{Kind: Free, Key: c.key})
	k.claim = c
	c.enter(giving)
	c.s.append(k)
	return k
}

// gaveBack draws the conclusions from the end of a Free. mu is held.
func (b *Backend) gaveBack(c *claim, op *Op, err error) {
	switch {
	case err != nil:
		b.bereave(c)
	case op.Err != nil && c.s.over != nil:
		b.bereave(c)
	case op.Err != nil:
		c.err = op.Err
		c.enter(held)
	default:
		c.freed = op.OK
		b.drop(c)
		b.hint(c.key)
	}
}
