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
	as := c.s.b.o.As
	return as != nil && as(c.s.conn, cmp.Or(c.slot, c.key), target)
}

// RenewBatch implements driver.BatchRenewer. Any request keeps a whole session alive, so it sends one Ping to each.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	b.mu.Lock()
	defer b.unlock()
	pings := make(map[*session]*Op, 1)
	for i, l := range leases {
		c := l.(*claim)
		if results[i].Err = c.whyNotHeld(); results[i].Err == nil && pings[c.s] == nil {
			pings[c.s] = c.s.ask(&Op{Kind: Ping}, nil)
		}
	}
	for _, ping := range pings {
		b.await(ctx, ping)
	}
	for i, l := range leases {
		c := l.(*claim)
		switch ping := pings[c.s]; {
		case results[i].Err != nil:
		case !ping.settled:
			results[i].Err = unknown(ctx.Err())
		case ping.Err != nil:
			results[i].Err = unknown(ping.Err)
		default:
			results[i] = driver.Renewal{Until: c.s.until(), Err: c.whyNotHeld()}
		}
	}
}

// whyNotHeld is the answer to the renewal of a claim that is not held; nil: it is held. Caller holds mu.
func (c *claim) whyNotHeld() error {
	switch {
	case c.state == held:
		return nil
	case c.state == freeing:
		return unknown(errReleased)
	case c.s.endErr != nil:
		return lost(c.s.endErr)
	}
	return of(driver.ErrLost, errReleased)
}

// Release implements driver.Lease. If the session ends before the answer, the outcome is unknown, although the engine could find out that the lock is
// gone. The client asks again, gets ErrLost, and decides by the clock whether that is a loss.
func (c *claim) Release(ctx context.Context) error {
	b := c.s.b
	b.mu.Lock()
	defer b.unlock()
	err := c.finish(ctx, c.state != orphaned)
	if err != nil || c.op.Kind == Free && c.op.OK {
		return err
	}
	return of(driver.ErrLost, errGone)
}

// Abandon implements driver.Backend. A claim whose session has ended on our side is certainly gone only once the server confirms it to another
// session: a half-open connection may keep its locks for up to the TTL.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	key, _ := b.keyOf(&req) // without a key, nothing was requested
	b.mu.Lock()
	defer b.unlock()
	if c := b.find(key, req.Owner); c != nil {
		return c.finish(ctx, false)
	}
	return nil
}

// finish ends c, which nobody wants any more. stop: return if its session ends meanwhile. Called with mu held; waits without it.
func (c *claim) finish(ctx context.Context, stop bool) error {
	for asked := false; c.state != gone; {
		switch c.state {
		case trying:
			c.wanted = false
			if c.op.waits {
				c.s.end(errCanceled)
			}
		case held:
			if asked {
				return c.op.Err
			}
			asked = true
			c.free()
		case orphaned:
			return c.s.b.confirmEnd(ctx, c.s)
		}
		if !c.s.b.await(ctx, c.op) {
			return unknown(ctx.Err())
		}
		if stop && c.op.Err != nil && c.state != held { // its session has ended, perhaps at the server too by now
			return unknown(c.s.endErr)
		}
	}
	return nil
}

// confirmEnd makes sure that s, which has ended on our side, has ended at the server. Concurrent callers share a request. Called with mu held; waits
// without it.
func (b *Backend) confirmEnd(ctx context.Context, s *session) error {
	if s.ending == nil {
		m, err := b.mainSession()
		if err != nil {
			return err
		}
		s.ending = m.ask(&Op{Kind: End, Earlier: s.conn}, func(op *Op) { s.onEnd(op, m) })
	}
	op := s.ending
	switch answered := b.await(ctx, op); {
	case !answered:
		return unknown(ctx.Err())
	case op.Err != nil:
		return op.Err
	case !op.OK:
		return unavailable(errEnding)
	}
	return nil
}

// onEnd handles the end of an End of s, sent by m. Caller holds mu.
func (s *session) onEnd(op *Op, m *session) {
	s.ending = nil
	if op.Err != nil && m.conn != nil { // a session that may not be terminated ends by itself; a refusal stays if no session opens
		op.Err = unavailable(op.Err)
	}
	if op.Err != nil || !op.OK {
		return
	}
	for c := range s.claims {
		s.b.drop(c)
	}
}
