package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/lockport/lockport/driver"
)

// claim is a request for a name, and its lease once granted. It is in Backend.table while its session has or may have the key. If its session has
// ended on our side, that is until the session has certainly ended at the server. Guarded by Backend.mu.
type claim struct {
	s   *session
	key Key
	req driver.Request

	slot   Key // the permit it has, if any
	state  state
	op     *Op  // its Try, or its last Free
	wanted bool // a caller waits for the answer, or has the lease

	grant driver.Grant
}

// state is the state of a claim at the server.
type state uint8

const (
	trying   state = iota // its Try is queued or under way
	held                  // it has the key
	freeing               // its Free is queued or under way
	orphaned              // its session has ended on our side; the server may keep the key until it notices
	gone                  // it certainly does not have the key
)

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.acquire(ctx, req, false)
}

// Wait implements driver.Waiter. The claim waits in the server's queue on a session of its own, and once granted lives there. ErrHeld: no session is
// left to wait on.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.acquire(ctx, req, true)
}

// acquire makes the claim of req. waits: in the server's queue, until granted.
func (b *Backend) acquire(ctx context.Context, req driver.Request, waits bool) (driver.Lease, error) {
	if req.TTL != b.o.TTL {
		return nil, fmt.Errorf("%w: TTL %v, but the session's is %v and applies to all its locks", driver.ErrRefused, req.TTL, b.o.TTL)
	}
	key, err := b.keyOf(&req)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.unlock()
	b.label = driver.OwnerClient(req.Owner)
	slots, err := b.admit(ctx, key, &req, waits)
	if err != nil {
		return nil, err
	}
	open := b.mainSession
	if waits {
		open = b.idleBlocker
	}
	s, err := open()
	if err != nil {
		return nil, err
	}
	c := b.claimOn(s, key, &req, slots, waits)
	op := c.op // by the answer, its Free may have followed
	answered := b.await(ctx, op)
	switch {
	case c.state == held:
		return c, nil
	case !answered: // if it is granted all the same, onTry frees it
		c.wanted = false
		if waits { // only the end of its session ends a wait
			s.end(errCanceled)
		}
		return nil, unknown(ctx.Err())
	case op.Err != nil:
		return nil, op.Err
	case !op.OK:
		return nil, b.errHeld
	}
	return nil, unknown(cmp.Or(s.endErr, errCanceled)) // its session ended meanwhile, or it was abandoned
}

// available returns why req cannot be tried now: ctx has ended, the backend is closed, a local claim excludes it, or an earlier claim of the same
// owner has not ended yet, so that no answer would be true of it. Caller holds mu.
func (b *Backend) available(ctx context.Context, key Key, req *driver.Request, waits bool) error {
	c := b.find(key, req.Owner)
	switch {
	case c != nil && c.state == orphaned:
		return unknown(errEnding)
	case c != nil && !c.wanted:
		return unknown(errReleased)
	case cmp.Or(ctx.Err(), b.ctx.Err()) != nil:
		return unavailable(cmp.Or(ctx.Err(), errClosed))
	case c != nil || slices.ContainsFunc(b.table[key], func(c *claim) bool { return c.excludes(req, waits) }):
		return b.errHeld
	}
	return b.full(1)
}

// admit returns why req cannot be tried now, or the permits of the name that no local claim has, from a random one on, as keys; nil: req asks for no
// permit. It first awaits the end of an abandoned claim that excludes req, since nobody holds that, and the answer to an earlier request for these
// permits, which may get any of them. Called with mu held; waits without it.
func (b *Backend) admit(ctx context.Context, key Key, req *driver.Request, waits bool) (slots []Key, err error) {
	err = b.available(ctx, key, req, waits)
	if err != nil && err != b.errHeld {
		return nil, err
	}
	for _, c := range b.table[key] {
		abandoned := !c.wanted && (c.state == trying || c.state == freeing)
		if err != nil && abandoned || req.Permits > 0 && c.state == trying {
			b.await(ctx, c.op)
			return b.admit(ctx, key, req, waits)
		}
	}
	if err != nil || req.Permits == 0 {
		return nil, err
	}
	if waits { // the server has no queue for one of several locks
		return nil, b.errHeld
	}
	taken := make(map[Key]bool)
	for _, c := range b.table[key] {
		if c.state != orphaned {
			taken[c.slot] = true
		}
	}
	first := rand.IntN(req.Permits)
	for i := range req.Permits {
		if slot := b.o.Layout.Permit(key, 1+(first+i)%req.Permits); !taken[slot] {
			slots = append(slots, slot)
		}
	}
	if len(slots) == 0 {
		return nil, b.errHeld
	}
	return slots, nil
}

// find returns the claim of owner on key in the table, or nil. Caller holds mu.
func (b *Backend) find(key Key, owner string) *claim {
	for _, c := range b.table[key] {
		if c.req.Owner == owner {
			return c
		}
	}
	return nil
}

// excludes reports whether req must not be tried beside c, which has the same key. The server keeps sessions apart; the engine keeps apart the claims
// of one session. So a local reader and writer can wait for each other in the server's queue, on separate sessions. Caller holds mu.
func (c *claim) excludes(req *driver.Request, waits bool) bool {
	switch {
	case req.Permits > 0, c.state == orphaned: // only the server knows
		return false
	case waits:
		return !c.req.Shared && !req.Shared
	}
	return !c.req.Shared || !req.Shared
}

// idleBlocker returns a session without claims beside the main one, or errHeld if all are in use. Caller holds mu.
func (b *Backend) idleBlocker() (*session, error) {
	for _, s := range b.blockers {
		if s.endErr == nil && len(s.claims) == 0 && !s.stale() {
			return s, nil
		}
	}
	if len(b.blockers) >= b.o.Blockers {
		return nil, b.errHeld
	}
	s := b.open()
	b.blockers = append(b.blockers, s)
	return s, nil
}

// claimOn begins a claim on s and queues its Try. No local claim excludes it. Caller holds mu.
func (b *Backend) claimOn(s *session, key Key, req *driver.Request, slots []Key, waits bool) *claim {
	c := &claim{s: s, key: key, req: *req, wanted: true}
	b.table[key] = append(b.table[key], c)
	s.claims[c] = struct{}{}
	c.op = s.ask(&Op{Kind: Try, Key: key, Shared: req.Shared, Slots: slots, Name: req.Name, Owner: req.Owner, waits: waits}, c.onTry)
	return c
}

// drop ends a claim that certainly does not have its key. Caller holds mu.
func (b *Backend) drop(c *claim) {
	b.table[c.key] = slices.DeleteFunc(b.table[c.key], func(other *claim) bool { return other == c })
	if len(b.table[c.key]) == 0 {
		delete(b.table, c.key)
	}
	delete(c.s.claims, c)
	c.state = gone
}

// orphan records that c's session has ended on our side while c had or may have had its key. Caller holds mu.
func (b *Backend) orphan(c *claim) {
	c.state = orphaned
	b.hint(c.key) // others may try now: only the server knows
}

// onTry handles the end of a Try. Caller holds mu.
func (c *claim) onTry(op *Op) {
	b := c.s.b
	c.slot = op.Slot
	switch {
	case errors.Is(op.Err, driver.ErrUnknown):
		b.orphan(c)
	case op.Err != nil || !op.OK:
		b.drop(c)
	case c.s.endErr != nil:
		b.orphan(c)
	case c.wanted:
		c.grant = driver.Grant{Token: op.Token, Until: c.s.until()}
		c.state = held
	default:
		c.free()
	}
	if c.state == gone && !c.wanted {
		b.hint(c.key) // others may have been woken too soon: until now this claim excluded them
	}
}

// free queues the Free of a claim that has its key. Caller holds mu.
func (c *claim) free() {
	c.state = freeing
	c.op = c.s.ask(&Op{Kind: Free, Key: c.key, Shared: c.req.Shared, Slot: c.slot}, c.onFree)
}

// onFree handles the end of a Free. Caller holds mu.
func (c *claim) onFree(op *Op) {
	b := c.s.b
	switch {
	case op.Err == nil:
		b.drop(c)
		b.hint(c.key)
	case c.s.endErr != nil:
		b.orphan(c)
	default:
		c.state = held
	}
}
