package session

import (
	"context"

	"github.com/lockport/lockport/driver"
)

// Release implements driver.Lease. When the session ends before the answer has come it is unknown whether the lock was still there, even though it
// could be found out here that it is gone now: the client asks again, and decides by the clock whether ErrLost, the answer then, is a loss.
func (c *claim) Release(ctx context.Context) error {
	b := c.b
	b.mu.Lock()
	defer b.unlock()
	if c.state == held {
		switch k := c.giveBack(ctx); {
		case k == nil:
			return unknown(ctx.Err())
		case k.err != nil, c.state == orphan:
			return unknown(c.s.over)
		case c.state == held:
			return c.err
		default:
			b.freeCall(k)
		}
	}
	if err := b.ended(ctx, c); err != nil || c.freed {
		return err
	}
	return of(driver.ErrLost, errTaken)
}

// giveBack gives the key back and waits for the answer. nil: ctx has ended before. mu is held, but not meanwhile.
func (c *claim) giveBack(ctx context.Context) *call {
	k := c.queueFree()
	c.s.start(ctx)
	if !c.s.await(ctx, k) {
		return nil
	}
	return k
}

// ended brings c, for which nobody waits any more, to its end. mu is held, but not meanwhile.
func (b *Backend) ended(ctx context.Context, c *claim) error {
	for asked := false; ; {
		switch c.state {
		case asking:
			c.wanted = false
			if c.s.withdraw(c.try) {
				b.drop(c)
				b.hint(c.key)
				c.err = unavailable(errCancelled)
				c.try.settle()
				continue
			}
			if c.try.blocks {
				c.s.end(errCancelled)
			}
		case held:
			if asked {
				return c.err
			}
			asked = true
			if c.giveBack(ctx) != nil {
				continue
			}
		case giving:
		case orphan:
			if err := b.certify(ctx, c.s); err != nil {
				return err
			}
			continue
		case gone:
			return nil
		}
		if err := c.change(ctx); err != nil {
			return unknown(err)
		}
	}
}

// Abandon implements driver.Backend. A claim whose session has ended for us is certainly gone only when the server says so in another session: a
// connection that is half-open may keep its locks for as long as the TTL.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	key, err := b.o.Layout(req.Name)
	if err != nil {
		return nil // nothing was asked for
	}
	b.mu.Lock()
	defer b.unlock()
	for {
		c := b.table[key]
		if c == nil || c.req.Owner != req.Owner {
			if c = b.dead[req.Owner]; c == nil {
				return nil
			}
		}
		if err := b.ended(ctx, c); err != nil {
			return err
		}
	}
}

// certify makes sure that s, which has ended for us, has ended at the server. Many who want to know it make one request. mu is held, but
// not meanwhile.
func (b *Backend) certify(ctx context.Context, s *session) error {
	if s.buried {
		return nil
	}
	k := s.burial
	if k == nil {
		m, err := b.mainSession()
		if err != nil {
			return err
		}
		k = &call{op: &Op{Kind: End, ID: s.conn.ID()}, tomb: s}
		s.burial = k
		m.append(k)
		m.start(ctx)
		m.await(ctx, k)
	}
	if k.state != settled {
		if k.over == nil {
			k.over = make(chan struct{})
		}
		if err := b.wait(ctx, k.over); err != nil {
			return unknown(err)
		}
	}
	switch {
	case s.buried:
		return nil
	case k.err != nil:
		return unavailable(k.err)
	case k.op.Err != nil:
		return unavailable(k.op.Err)
	}
	return unavailable(errEnding)
}

// bury draws the conclusions from the end of an End. mu is held.
func (b *Backend) bury(k *call, err error) {
	s := k.tomb
	s.burial = nil
	if err != nil || k.op.Err != nil || !k.op.OK {
		return
	}
	s.buried = true
	for c := s.claims.first; c != nil; {
		next := c.next
		if c.state == orphan {
			b.drop(c)
		}
		c = next
	}
	b.prune()
}
