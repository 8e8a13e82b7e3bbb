package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

// claim is one claim, and its lease once granted. It has ended if it is neither a holder of its entry nor in the queue. The server's mutex guards
// since and expires; grant does not change after the grant.
type claim struct {
	backend *Backend
	entry   *entry
	req     driver.Request
	waits   chan struct{} // closed by the grant; nil: granted at once
	grant   driver.Grant

	since   time.Time // when it was granted
	expires time.Time // when it ends unless it is renewed
}

func (c *claim) isHeld() bool    { return slices.Contains(c.entry.holders(), c) }
func (c *claim) isWaiting() bool { return slices.Contains(c.entry.queue(), c) }

// isForeignTo reports whether c and other belong to different clients.
func (c *claim) isForeignTo(other *claim) bool {
	return driver.OwnerClient(c.req.Owner) != driver.OwnerClient(other.req.Owner)
}

// outcome returns what the client of c learns now. Caller holds the mutex.
func (c *claim) outcome(now time.Time) (driver.Lease, error) {
	switch {
	case c.isHeld():
		return c, nil
	case c.isWaiting():
		return nil, c.entry.heldError(now)
	}
	return nil, fmt.Errorf("%w: the claim ended before its client heard of it", driver.ErrUnknown)
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Renew implements driver.Renewer.
func (c *claim) Renew(ctx context.Context) (time.Time, error) { return driver.Renew(ctx, c.backend, c) }

// renew extends c by a request sent at sent. Caller holds the mutex.
func (c *claim) renew(sent, now time.Time) (until time.Time, err error) {
	if err := c.lost(now); err != nil {
		return time.Time{}, err
	}
	c.expires = now.Add(c.req.TTL)
	return sent.Add(c.req.TTL), nil
}

// release ends c. Caller holds the mutex.
func (c *claim) release(now time.Time) error {
	err := c.lost(now)
	if err == nil {
		c.backend.server.end(c, nil, now)
	}
	return err
}

// lost returns an error if c is not held any more. Caller holds the mutex.
func (c *claim) lost(now time.Time) error {
	if c.backend.server.expire(c.entry, now); !c.isHeld() {
		return fmt.Errorf("%w: the name is not held by this claim any more", driver.ErrLost)
	}
	return nil
}

// Release implements driver.Lease.
func (c *claim) Release(ctx context.Context) error {
	return c.backend.call(ctx, "Release", func(_ *Server, now time.Time) error { return c.release(now) })
}
