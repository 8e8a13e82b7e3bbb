package session

import (
	"context"
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
	if err := b.available(ctx, key, &req); err != nil {
		return nil, err
	}
	s, err := find()
	if err != nil {
		return nil, err
	}
	c := b.claimOn(s, key, &req, waits)
	if err := c.outcome(ctx); err != nil {
		if waits && c.state == asking { // it can be ended only with its session
			s.end(errCancelled)
		}
		return nil, err
	}
	c.granted = true
	return c, nil
}

// available says why nothing can be asked for now: ctx has ended, somebody here has the key, asks for it or gives it back, or an earlier claim of the same
// owner has not come to its end, so that no answer would be true of it. mu is held.
func (b *Backend) available(ctx context.Context, key Key, req *driver.Request) error {
	if b.label == "" {
		b.label = driver.OwnerClient(req.Owner)
	}
	c := b.table[key]
	switch {
	case b.dead[req.Owner] != nil:
		return unknown(errEnding)
	case c != nil && c.req.Owner == req.Owner && !c.wanted:
		return unknown(errGiven)
	case ctx.Err() != nil:
		return unavailable(ctx.Err())
	case c != nil:
		return b.errHeld
	}
	return nil
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
