package memory

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

// claim is one claim, and its lease once it is granted. The server's mutex guards all fields but backend, granted and, once
// granted is closed, grant.
type claim struct {
	backend *Backend
	req     driver.Request
	entry   *entry
	granted chan struct{} // closed when it is granted or has ended
	grant   driver.Grant

	state   state
	since   time.Time // when it was granted
	expires time.Time // when it ends unless it is renewed
	until   time.Time // what its client may believe; never after expires
	place   *list.Element
}

// state is what became of a claim.
type state int

const (
	waiting state = iota
	held
	over
)

func (c *claim) key() claimKey { return claimKey{c.req.Name, c.req.Owner} }

// isForeignTo says that c and other belong to different clients.
func (c *claim) isForeignTo(other *claim) bool {
	return c.backend != other.backend || driver.OwnerClient(c.req.Owner) != driver.OwnerClient(other.req.Owner)
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// renew prolongs c. The caller has the mutex.
func (s *Server) renew(c *claim, sent, now time.Time) (time.Time, error) {
	s.expire(c.entry, now)
	if c.state != held {
		return time.Time{}, fmt.Errorf("%w: the name is not held by this claim any more", driver.ErrLost)
	}
	c.expires = now.Add(c.req.TTL)
	if until := sent.Add(c.req.TTL); until.After(c.until) {
		c.until = until
	}
	return c.until, nil
}

// Release implements driver.Lease.
func (c *claim) Release(ctx context.Context) error {
	return c.backend.call(ctx, func(s *Server, now time.Time) error {
		s.expire(c.entry, now)
		if c.state != held {
			return fmt.Errorf("%w: it had ended before the release", driver.ErrLost)
		}
		s.end(c, nil, now)
		return nil
	})
}

// Detach implements driver.Attacher.
func (b *Backend) Detach(ctx context.Context, lease driver.Lease) error {
	c, sent := lease.(*claim), time.Now()
	return b.call(ctx, func(s *Server, now time.Time) error {
		_, err := s.renew(c, sent, now)
		return err
	})
}

// Attach implements driver.Attacher.
func (b *Backend) Attach(ctx context.Context, req driver.Request, owner string, token uint64) (lease driver.Lease, err error) {
	sent := time.Now()
	err = b.call(ctx, func(s *Server, now time.Time) error {
		_ = s.entry(keyOf(req), now)
		if c := s.claims[claimKey{req.Name, req.Owner}]; c != nil {
			lease = c
			return nil
		}
		old := s.claims[claimKey{req.Name, owner}]
		if old == nil || old.state != held || old.grant.Token != token {
			return fmt.Errorf("%w: the detached claim has ended, or was attached", driver.ErrLost)
		}
		c := &claim{backend: b, req: req, entry: old.entry, granted: old.granted, state: held, since: old.since, expires: now.Add(req.TTL)}
		c.grant = driver.Grant{Token: token, Until: sent.Add(req.TTL), Contended: old.entry.queue.Len() > 0}
		c.until = c.grant.Until
		old.state = over
		delete(s.claims, old.key())
		s.claims[c.key()] = c
		c.entry.holders[slices.Index(c.entry.holders, old)] = c
		lease = c
		return nil
	})
	return lease, err
}
