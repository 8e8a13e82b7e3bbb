package session

import (
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
	call    *call // its Try, or its last Free
	wanted  bool  // somebody waits for the answer, or has the lease
	granted bool  // somebody has the lease
	err     error // why it was not granted, or could not be given back
	freed   bool  // it ended by being given back

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
	c.call = s.ask(&Op{Kind: Try, Key: key, Name: req.Name, Owner: req.Owner}, c.tried)
	c.call.waits = waits
	return c
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
	c.state = gone
}

// bereave notes that the session of c has ended for us while c had or may have had its key. mu is held.
func (b *Backend) bereave(c *claim) {
	delete(b.table, c.key)
	b.dead[c.req.Owner] = c
	c.state = orphan
	b.hint(c.key) // for others it is the server's affair now
}

// withdraw takes back a claim that was not asked for yet. false: it was. mu is held.
func (c *claim) withdraw() bool {
	if !c.s.withdraw(c.call) {
		return false
	}
	c.err = unavailable(errCancelled)
	c.b.drop(c)
	c.b.hint(c.key) // others here were refused because of it
	return true
}

// tried draws the conclusions from the end of a Try. mu is held.
func (c *claim) tried() {
	b, op := c.b, c.call.op
	switch {
	case c.call.err != nil:
		c.err = c.call.err
		if c.call.sent {
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
		c.state = held
	default:
		c.giveBack()
	}
	if c.state == gone && !c.wanted {
		b.hint(c.key)
	}
}

// giveBack queues the Free of a claim that has its key. mu is held.
func (c *claim) giveBack() {
	c.state = giving
	c.call = c.s.ask(&Op{Kind: Free, Key: c.key}, c.gaveBack)
}

// gaveBack draws the conclusions from the end of a Free. mu is held.
func (c *claim) gaveBack() {
	b, k := c.b, c.call
	switch {
	case k.err != nil:
		c.err = unknown(k.err)
		b.bereave(c)
	case k.op.Err != nil:
		c.err = k.op.Err
		c.state = held
	default:
		c.freed = k.op.OK
		b.drop(c)
		b.hint(c.key)
	}
}
