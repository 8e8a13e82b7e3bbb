package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// Node is a lock's own node, for Lock.As.
type Node struct {
	Path    string // with the sequence number
	Session int64  // owner of the node
	Czxid   int64  // the driver's token: the transaction that created the node, or a later one that deleted another claim's node
}

func (c *claim) Grant() driver.Grant {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.grant
}

// As implements driver.LeaseAs: it sets a *Node.
func (c *claim) As(target any) bool {
	n, ok := target.(*Node)
	if ok {
		c.b.mu.Lock()
		defer c.b.mu.Unlock()
		*n = Node{Path: c.path, Session: c.session, Czxid: c.czxid}
	}
	return ok
}

// RenewBatch implements driver.BatchRenewer. One request confirms the session, and with it every claim.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	if len(leases) == 0 {
		return
	}
	path := leases[0].(*claim).parent
	_, err := inTime(ctx, driver.ErrUnknown, func() (any, error) { return nil, b.freshen(ctx, path) })
	if errors.Is(err, zk.ErrNoNode) {
		err = nil // that claim's watch reports the loss
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, lease := range leases {
		switch c := lease.(*claim); {
		case !c.held || c.session != b.session.id:
			results[i].Err = fmt.Errorf("%w: it was released, its node was deleted, or its session has ended", driver.ErrLost)
		case err != nil:
			results[i].Err = err
		default:
			results[i].Until = b.until()
			c.timeout = max(c.timeout, b.timeout())
		}
	}
}

// lose ends a held claim as lost, and tells its holder.
func (c *claim) lose(reason error) {
	c.b.mu.Lock()
	held := c.held
	c.held = false
	c.b.mu.Unlock()
	if held && c.req.Lost != nil {
		c.req.Lost(fmt.Errorf("%w: %w", driver.ErrLost, reason))
	}
}

// Release implements driver.Lease, in one request. Node names are not reused, so a late request deletes nobody else's node.
func (c *claim) Release(ctx context.Context) error {
	c.b.mu.Lock()
	path := c.path
	c.held = false
	c.b.mu.Unlock()
	_, err := inTime(ctx, driver.ErrUnknown, func() (any, error) { return nil, c.b.delete(path) })
	switch {
	case err == nil:
		if n, ok := numberOf(path); ok {
			c.b.released.Put(c.parent, n)
		}
	case errors.Is(err, zk.ErrNoNode):
		err = fmt.Errorf("%w: its node was already deleted", driver.ErrLost)
	default:
		return err
	}
	c.forget()
	return err
}

// Abandon implements driver.Backend. It waits for a creation that is in flight, or kept by the client library. By its GUID, it looks for a
// node whose creation's reply was lost.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	_, err := inTime(ctx, driver.ErrUnknown, func() (any, error) { return nil, b.abandon(ctx, req) })
	return err
}

func (b *Backend) abandon(ctx context.Context, req driver.Request) error {
	b.mu.Lock()
	c := b.claims[claimKey{req.Name, req.Owner}]
	if c == nil {
		c = b.newClaim(req)
		c.unsure = true
	}
	c.abandoned, c.held = true, false
	creating, nothing := c.creating, c.hasNothing()
	b.mu.Unlock()
	if nothing {
		c.forget()
		return nil
	}
	if creating != nil {
		select {
		case <-creating:
		case <-ctx.Done():
			return unknown(ctx.Err())
		}
	}
	switch err := b.ready(ctx); {
	case errors.Is(err, errSessionEnded):
		c.forget()
		return nil
	case errors.Is(err, driver.ErrRefused):
		return err
	case err != nil:
		return unknown(err)
	}
	if err := c.resolveCreation(); err != nil {
		return err
	}
	if c.node() != "" {
		if err := c.withdraw(); err != nil {
			return err
		}
	}
	c.forget()
	return nil
}
