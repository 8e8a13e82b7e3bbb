package session

import (
	"context"

	"github.com/lockport/lockport/driver"
)

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	key, err := b.layout(&req)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.unlock()
	if err := b.settleEarlier(ctx, &req); err != nil {
		return nil, err
	}
	if c := b.table[key]; c != nil && c.state == asking && c.left(&req) && !c.try.blocks {
		c.req, c.wanted = req, true
		return c.outcome(ctx)
	}
	if err := b.available(ctx, key, &req); err != nil {
		return nil, err
	}
	s, err := b.mainSession()
	if err != nil {
		return nil, err
	}
	c := b.claimOn(s, key, &req, false)
	s.start(ctx)
	return c.outcome(ctx)
}

// left says that c is an earlier claim of the owner of req, whose caller has left it and now comes again.
func (c *claim) left(req *driver.Request) bool { return c.req.Owner == req.Owner && !c.wanted }

// available says why nothing can be asked for now: ctx has ended, or somebody here has the key, asks for it or gives it back. mu is held.
func (b *Backend) available(ctx context.Context, key Key, req *driver.Request) error {
	c := b.table[key]
	if c != nil && c.left(req) {
		return unknown(errGiven)
	}
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	if c != nil {
		return b.errHeld
	}
	return nil
}

// settleEarlier makes sure that an earlier claim of the same owner, whose session has ended, is gone: otherwise no answer would be true of it. mu
// is held, but not meanwhile.
func (b *Backend) settleEarlier(ctx context.Context, req *driver.Request) error {
	if b.label == "" {
		b.label = driver.OwnerClient(req.Owner)
	}
	for c := b.dead[req.Owner]; c != nil; c = b.dead[req.Owner] {
		if err := b.certify(ctx, c.s); err != nil {
			return unknown(err)
		}
	}
	return nil
}

// outcome waits for what becomes of a Try. mu is held, but not meanwhile.
func (c *claim) outcome(ctx context.Context) (driver.Lease, error) {
	answered := c.s.await(ctx, c.try)
	switch {
	case c.state == held:
		if !c.try.blocks {
			c.give()
		}
		return c, nil
	case answered && c.err == nil && c.s.over != nil: // meanwhile
		return nil, unknown(c.s.over)
	case answered && c.err == nil: // abandoned meanwhile
		return nil, unknown(errCancelled)
	case answered:
		return nil, c.err
	case c.s.withdraw(c.try):
		c.b.drop(c)
		c.b.hint(c.key)
		return nil, unavailable(ctx.Err())
	}
	c.wanted = false
	return nil, unknown(ctx.Err())
}
