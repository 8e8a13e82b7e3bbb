package session

import (
	"context"
	"slices"

	"github.com/lockport/lockport/driver"
)

// Wait implements driver.Waiter. The claim waits in the server's queue on a session of its own, and if it is granted lives there. ErrHeld: no
// session is left to wait on.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	key, err := b.layout(&req)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.unlock()
	if err := b.settleEarlier(ctx, &req); err != nil {
		return nil, err
	}
	if err := b.available(ctx, key, &req); err != nil {
		return nil, err
	}
	if b.closed {
		return nil, unavailable(errClosed)
	}
	s := b.idleBlocker()
	if s == nil {
		return nil, b.errHeld
	}
	c := b.claimOn(s, key, &req, true)
	s.start(ctx)
	lease, err := c.outcome(ctx)
	switch {
	case c.state == asking: // it can be ended only with its session
		s.end(errCancelled)
		return nil, err
	case err != nil:
		return nil, err
	}
	if err := c.confirm(ctx); err != nil {
		return nil, err
	}
	return lease, nil
}

// confirm gives a claim that was granted after a wait its validity: for how long the server had the lock ready for us, nobody can know.
func (c *claim) confirm(ctx context.Context) error {
	s := c.s
	k := &call{op: &Op{Kind: Ping}}
	s.append(k)
	s.start(ctx)
	switch {
	case !s.await(ctx, k):
		s.withdraw(k)
	case c.state == held && k.op.Err == nil:
		c.grant.Until = s.until()
		c.give()
		return nil
	}
	if c.state == held {
		c.wanted = false
		c.queueFree()
		s.startLater()
	}
	if err := ctx.Err(); err != nil {
		return unknown(err)
	}
	if s.over != nil {
		return unknown(s.over)
	}
	return unknown(errCancelled)
}

// idleBlocker returns a session to wait on, or nil if all are in use. One without claims is not, although its last request may not have returned yet: what is
// asked then goes behind it. mu is held.
func (b *Backend) idleBlocker() *session {
	b.prune()
	for _, s := range slices.Clone(b.blockers) {
		if s.over == nil && s.claims.first == nil && len(s.queue) == 0 {
			if !s.stale() {
				return s
			}
			s.end(errIdle)
		}
	}
	if len(b.blockers) >= b.o.Blockers {
		return nil
	}
	s := b.begin(true)
	b.blockers = append(b.blockers, s)
	return s
}

// prune forgets the blockers that have ended and left nothing behind. mu is held.
func (b *Backend) prune() {
	b.blockers = slices.DeleteFunc(b.blockers, func(s *session) bool {
		return s.over != nil && s.claims.first == nil
	})
}
