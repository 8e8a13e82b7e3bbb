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
	try     *call
	wanted  bool          // somebody waits for the answer, or has the lease
	granted bool          // somebody has the lease
	err     error         // why it was not granted, or could not be given back
	freed   bool          // it ended by being given back
	changed chan struct{} // if not nil: closed when state changes

	grant driver.Grant
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

// claimOn begins a claim on s, which nobody else here may have, and queues its Try. mu is held.
func (b *Backend) claimOn(s *session, key Key, req *driver.Request, waits bool) *claim {
	c := &claim{b: b, s: s, key: key, req: *req, wanted: true}
	b.table[key] = c
	s.claims[c] = struct{}{}
	c.try = s.ask(&Op{Kind: Try, Key: key, Name: req.Name, Owner: req.Owner}, c.tried)
	c.try.waits = waits
	return c
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

// drop ends a claim that certainly does not have its key, and tells those here who were refused because of it. mu is held.
func (b *Backend) drop(c *claim) {
	if b.table[c.key] == c {
		delete(b.table, c.key)
	}
	if b.dead[c.req.Owner] == c {
		delete(b.dead, c.req.Owner)
	}
	delete(c.s.claims, c)
	c.enter(gone)
}

// bereave notes that the session of c has ended for us while c had or may have had its key. mu is held.
func (b *Backend) bereave(c *claim) {
	delete(b.table, c.key)
	b.dead[c.req.Owner] = c
	c.enter(orphan)
	b.hint(c.key) // for others it is the server's affair now
}

// withdraw takes back a claim that was not asked for yet. false: it was. mu is held.
func (c *claim) withdraw() bool {
	if !c.s.withdraw(c.try) {
		return false
	}
	c.err = unavailable(errCancelled)
	c.b.drop(c)
	c.b.hint(c.key) // others here were refused because of it
	return true
}

// tried draws the conclusions from the end of a Try. mu is held.
func (c *claim) tried() {
	b, op := c.b, c.try.op
	switch {
	case c.try.err != nil:
		c.err = c.try.err
		if c.try.sent {
			b.bereave(c)
		} else {
			b.drop(c)
		}
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
		c.giveBack()
	}
	if c.state == gone && !c.wanted {
		b.hint(c.key)
	}
}

// giveBack queues the Free of a claim that has its key. mu is held.
func (c *claim) giveBack() {
	c.enter(giving)
	var k *call
	k = c.s.ask(&Op{Kind: Free, Key: c.key}, func() { c.gaveBack(k) })
}

// gaveBack draws the conclusions from the end of a Free. mu is held.
func (c *claim) gaveBack(k *call) {
	b := c.b
	switch {
	case k.err != nil:
		c.err = unknown(k.err)
		b.bereave(c)
	case k.op.Err != nil:
		c.err = k.op.Err
		c.enter(held)
	default:
		c.freed = k.op.OK
		b.drop(c)
		b.hint(c.key)
	}
}
