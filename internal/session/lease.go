package session

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
)

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// As implements driver.LeaseAs.
func (c *claim) As(target any) bool {
	return c.b.o.As != nil && c.b.o.As(c.s.conn, c.key, target)
}

var _ driver.LeaseAs = (*claim)(nil)

// Renew implements driver.Lease.
func (c *claim) Renew(ctx context.Context) (time.Time, error) {
	var result [1]driver.Renewal
	c.b.RenewBatch(ctx, []driver.Lease{c}, result[:])
	return result[0].Until, result[0].Err
}

// RenewBatch implements driver.BatchRenewer. Any request keeps a whole session: one Ping for each is enough, whatever lives on it.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	b.mu.Lock()
	defer b.unlock()
	pings := make(map[*session]*call, 1)
	for i, l := range leases {
		c, ok := l.(*claim)
		switch {
		case !ok || c.b != b:
			results[i].Err = of(driver.ErrUnknown, errForeign)
		case c.state != held:
			results[i].Err = c.whyNotHeld()
		case pings[c.s] == nil:
			k := &call{op: &Op{Kind: Ping}, over: make(chan struct{})}
			pings[c.s] = k
			c.s.append(k)
		}
	}
	for s, k := range pings {
		if len(pings) == 1 {
			s.start(ctx)
			s.await(ctx, k)
		} else {
			s.startLater()
		}
	}
	for s, k := range pings {
		for over := k.over; k.state != settled; {
			if b.wait(ctx, over) != nil {
				s.withdraw(k)
				break
			}
		}
	}
	for i, l := range leases {
		c, ok := l.(*claim)
		if !ok || results[i].Err != nil {
			continue
		}
		switch k := pings[c.s]; {
		case k.state != settled:
			results[i].Err = unknown(ctx.Err())
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

// whyNotHeld is the answer to the renewal of a claim that is not held. mu is held.
func (c *claim) whyNotHeld() error {
	switch {
	case c.state == giving:
		return of(driver.ErrUnknown, errGiven)
	case c.s.over != nil:
		return lost(c.s.over)
	}
	return of(driver.ErrLost, errGiven)
}
