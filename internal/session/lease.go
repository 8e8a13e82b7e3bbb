package session

import (
	"cmp"
	"context"

	"github.com/lockport/lockport/driver"
)

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// As implements driver.LeaseAs.
func (c *claim) As(target any) bool {
	return c.b.o.As != nil && c.b.o.As(c.s.conn, cmp.Or(c.slot, c.key), target)
}

var _ driver.LeaseAs = (*claim)(nil)

// RenewBatch implements driver.BatchRenewer. Any request keeps a whole session: one Ping for each is enough, whatever lives on it.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	b.mu.Lock()
	defer b.unlock()
	pings := make(map[*session]*call, 1)
	for i, l := range leases {
		c := l.(*claim)
		if results[i].Err = c.whyNotHeld(); results[i].Err == nil && pings[c.s] == nil {
			pings[c.s] = c.s.ask(&Op{Kind: Ping}, nil)
		}
	}
	for s, k := range pings {
		if !b.await(ctx, k) {
			s.withdraw(k)
			k.err = unknown(ctx.Err())
		}
	}
	for i, l := range leases {
		c := l.(*claim)
		if results[i].Err != nil {
			continue
		}
		switch k := pings[c.s]; {
		case k.err != nil:
			results[i].Err = unknown(k.err)
		case k.op.Err != nil:
			results[i].Err = unknown(k.op.Err)
		case c.state != held:
			results[i].Err = c.whyNotHeld()
		default:
			results[i].Until = c.s.until()
		}
	}
}

// whyNotHeld is the answer to the renewal of a claim that is not held; nil: it is. mu is held.
func (c *claim) whyNotHeld() error {
	switch {
	case c.state == held:
		return nil
	case c.state == giving:
		return of(driver.ErrUnknown, errGiven)
	case c.s.over != nil:
		return lost(c.s.over)
	}
	return of(driver.ErrLost, errGiven)
}

// Release implements driver.Lease. When the session ends before the answer has come it is unknown whether the lock was still there, even though it
// could be found out here that it is gone now: the client asks again, and decides by the clock whether ErrLost, the answer then, is a loss.
func (c *claim) Release(ctx context.Context) error {
	b := c.b
	b.mu.Lock()
	defer b.unlock()
	c.err = nil
	err := c.finish(ctx, c.state != orphan)
	switch {
	case err != nil:
		return err
	case c.freed:
		return nil
	case c.err != nil: // there was no answer
		return c.err
	}
	return of(driver.ErrLost, errTaken)
}

// Abandon implements driver.Backend. A claim whose session has ended for us is certainly gone only when the server says so in another session: a
// connection that is half-open may keep its locks for as long as the TTL.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	key, err := b.keyOf(&req)
	if err != nil {
		return nil // nothing was asked for
	}
	b.mu.Lock()
	defer b.unlock()
	c := b.find(key, req.Owner)
	if c == nil {
		c = b.dead[req.Owner]
	}
	if c == nil {
		return nil
	}
	return c.finish(ctx, false)
}

// finish brings c, which nobody wants any more, to its end. stop: not if its session ends meanwhile. mu is held, but not meanwhile.
func (c *claim) finish(ctx context.Context, stop bool) error {
	for asked := false; c.state != gone; {
		switch c.state {
		case asking:
			c.wanted = false
			if c.withdraw() {
				return nil
			}
			if c.call.waits {
				c.s.end(errCancelled)
			}
		case held:
			if asked {
				return c.err
			}
			asked = true
			c.giveBack()
		case orphan:
			if stop {
				return unknown(c.s.over)
			}
			if err := c.b.certify(ctx, c.s); err != nil {
				return err
			}
			continue
		}
		if !c.b.await(ctx, c.call) {
			return unknown(ctx.Err())
		}
	}
	return nil
}

// certify makes sure that s, which has ended for us, has ended at the server. All who want to know it make one request. mu is held, but not meanwhile.
func (b *Backend) certify(ctx context.Context, s *session) error {
	k := s.burial
	if k == nil {
		m, err := b.mainSession()
		if err != nil {
			return err
		}
		k = m.ask(&Op{Kind: End, Earlier: s.conn}, nil)
		k.then = func() { b.bury(s, k) }
		s.burial = k
	}
	answered := b.await(ctx, k)
	switch {
	case s.buried:
		return nil
	case !answered:
		return unknown(ctx.Err())
	case k.err != nil:
		return unavailable(k.err)
	case k.op.Err != nil:
		return unavailable(k.op.Err)
	}
	return unavailable(errEnding)
}

// bury draws the conclusions from the end of an End. mu is held.
func (b *Backend) bury(s *session, k *call) {
	s.burial = nil
	if k.err != nil || k.op.Err != nil || !k.op.OK {
		return
	}
	s.buried = true
	for c := range s.claims {
		if c.state == orphan {
			b.drop(c)
		}
	}
	b.prune()
}
