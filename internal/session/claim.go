package session

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/lockport/lockport/driver"
)

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.acquire(ctx, req, b.mainSession, false)
}

// Wait implements driver.Waiter. The claim waits in the server's queue on a session of its own, and if it is granted lives there. ErrHeld: no
// session is left to wait on.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.acquire(ctx, req, b.idleBlocker, true)
}

// acquire makes the claim of req on the session that find finds, where it waits or not.
func (b *Backend) acquire(ctx context.Context, req driver.Request, find func() (*session, error), waits bool) (driver.Lease, error) {
	key, err := b.layout(&req)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.unlock()
	if err := b.available(ctx, key, &req, waits); err != nil {
		return nil, err
	}
	slots, err := b.slots(ctx, key, &req, waits)
	if err != nil {
		return nil, err
	}
	s, err := find()
	if err != nil {
		return nil, err
	}
	c := b.claimOn(s, key, &req, slots, waits)
	if err := c.outcome(ctx); err != nil {
		if waits && c.state == asking { // it can be ended only with its session
			s.end(errCancelled)
		}
		return nil, err
	}
	c.granted = true
	return c, nil
}

// available says why nothing can be asked for now: ctx has ended, a claim here excludes that of req, or an earlier claim of the same
// owner has not come to its end, so that no answer would be true of it. mu is held.
func (b *Backend) available(ctx context.Context, key Key, req *driver.Request, waits bool) error {
	if b.label == "" {
		b.label = driver.OwnerClient(req.Owner)
	}
	c := b.find(key, req.Owner)
	switch {
	case b.dead[req.Owner] != nil:
		return unknown(errEnding)
	case c != nil && !c.wanted:
		return unknown(errGiven)
	case ctx.Err() != nil:
		return unavailable(ctx.Err())
	case c != nil || slices.ContainsFunc(b.table[key], func(c *claim) bool { return c.excludes(req, waits) }):
		return b.errHeld
	}
	return nil
}

// slots are the keys of the permits that req may get, those of its name that no claim here has, from a random one on; nil: it is no request for a permit. It
// awaits the answer to an earlier request of this name, which may get any. mu is held, but not meanwhile.
func (b *Backend) slots(ctx context.Context, key Key, req *driver.Request, waits bool) (slots []Key, err error) {
	if req.Permits == 0 {
		return nil, nil
	}
	if waits { // for one of many locks the server keeps no queue
		return nil, b.errHeld
	}
	taken := make(map[Key]bool)
	for _, c := range b.table[key] {
		if c.state == asking {
			if !b.await(ctx, c.call) {
				return nil, unavailable(ctx.Err())
			}
			if err := b.available(ctx, key, req, waits); err != nil {
				return nil, err
			}
			return b.slots(ctx, key, req, waits)
		}
		taken[c.slot] = true
	}
	first := rand.IntN(req.Permits)
	for i := range req.Permits {
		if slot := b.o.Permit(key, 1+(first+i)%req.Permits); !taken[slot] {
			slots = append(slots, slot)
		}
	}
	if len(slots) == 0 {
		return nil, b.errHeld
	}
	return slots, nil
}

// find returns the claim of owner on key that is in the table, or nil. mu is held.
func (b *Backend) find(key Key, owner string) *claim {
	for _, c := range b.table[key] {
		if c.req.Owner == owner {
			return c
		}
	}
	return nil
}

// excludes says that a claim of req on the same key is not to be asked for beside c. The server keeps sessions apart; it is for us to keep apart the claims of one
// session. So a reader and a writer of ours can wait for each other in the server's queue, on sessions of their own. mu is held.
func (c *claim) excludes(req *driver.Request, waits bool) bool {
	switch {
	case req.Permits > 0:
		return false
	case waits:
		return !c.req.Shared && !req.Shared
	case c.req.Shared && req.Shared:
		return c.contended && c.s == c.b.main // which would get the key again, ahead of the writers that wait
	}
	return true
}

// outcome waits for what becomes of a Try; nil: it has the key. mu is held, but not meanwhile.
func (c *claim) outcome(ctx context.Context) error {
	answered := c.b.await(ctx, c.call)
	switch {
	case c.state == held:
		return nil
	case c.state == asking && c.withdraw():
		return unavailable(ctx.Err())
	case !answered:
		c.wanted = false
		return unknown(ctx.Err())
	case c.err != nil:
		return c.err
	case c.s.over != nil: // meanwhile
		return unknown(c.s.over)
	}
	return unknown(errCancelled) // abandoned meanwhile
}

// idleBlocker returns a session to wait on, or errHeld if all are in use. mu is held.
func (b *Backend) idleBlocker() (*session, error) {
	if b.closed {
		return nil, unavailable(errClosed)
	}
	b.prune()
	for _, s := range b.blockers {
		if s.over == nil && len(s.claims) == 0 && s.idle() && !s.stale() {
			return s, nil
		}
	}
	if len(b.blockers) >= b.o.Blockers {
		return nil, b.errHeld
	}
	s := b.begin()
	b.blockers = append(b.blockers, s)
	return s, nil
}

// prune forgets the blockers that have ended and left nothing behind. mu is held.
func (b *Backend) prune() {
	b.blockers = slices.DeleteFunc(b.blockers, func(s *session) bool { return s.over != nil && len(s.claims) == 0 })
}

// claim is a request for a name, and the lease if it was granted. It is in Backend.table for as long as its session has or may have its key, and in
// Backend.dead after that session has ended for us, until it is certain that it has ended at the server too. Guarded by Backend.mu.
type claim struct {
	b   *Backend
	s   *session
	key Key
	req driver.Request

	slot    Key // of the permit that it has; empty: it is none
	state   state
	call    *call // its Try, or its last Free
	wanted  bool  // somebody waits for the answer, or has the lease
	granted bool  // somebody has the lease
	err     error // why it was not granted, or could not be given back
	freed   bool  // it ended by being given back

	contended bool // somebody is known to wait for the key

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

// claimOn begins a claim on s, which no other claim here excludes, and queues its Try. mu is held.
func (b *Backend) claimOn(s *session, key Key, req *driver.Request, slots []Key, waits bool) *claim {
	c := &claim{b: b, s: s, key: key, req: *req, wanted: true}
	b.table[key] = append(b.table[key], c)
	s.claims[c] = struct{}{}
	c.call = s.ask(&Op{Kind: Try, Key: key, Shared: req.Shared, Slots: slots, Name: req.Name, Owner: req.Owner}, c.tried)
	c.call.waits = waits
	return c
}

// drop ends a claim that certainly does not have its key, and tells those here who were refused because of it. mu is held.
func (b *Backend) drop(c *claim) {
	b.remove(c)
	if b.dead[c.req.Owner] == c {
		delete(b.dead, c.req.Owner)
	}
	delete(c.s.claims, c)
	c.state = gone
}

// remove takes c out of the table. mu is held.
func (b *Backend) remove(c *claim) {
	left := slices.DeleteFunc(b.table[c.key], func(other *claim) bool { return other == c })
	if len(left) == 0 {
		delete(b.table, c.key)
		return
	}
	b.table[c.key] = left
}

// bereave notes that the session of c has ended for us while c had or may have had its key. mu is held.
func (b *Backend) bereave(c *claim) {
	b.remove(c)
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
	c.slot = op.Slot
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
	c.call = c.s.ask(&Op{Kind: Free, Key: c.key, Shared: c.req.Shared, Slot: c.slot}, c.gaveBack)
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
