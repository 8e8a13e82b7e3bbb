package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// Node is a lock's own node, for Lock.As.
type Node struct {
	Path    string // of the node, with its sequence number
	Session int64  // that owns it
	Czxid   int64  // the transaction that created it, which is the driver's token
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.grant
}

// As implements driver.LeaseAs: it sets a *Node.
func (c *claim) As(target any) bool {
	n, ok := target.(*Node)
	if ok {
		c.mu.Lock()
		*n = Node{Path: c.path, Czxid: c.czxid}
		c.mu.Unlock()
		n.Session = c.l.id()
	}
	return ok
}

// Renew implements driver.Lease.
func (c *claim) Renew(ctx context.Context) (time.Time, error) {
	var results [1]driver.Renewal
	c.b.RenewBatch(ctx, []driver.Lease{c}, results[:])
	return results[0].Until, results[0].Err
}

// RenewBatch implements driver.BatchRenewer. One request confirms the session, and with it every claim whose node is watched.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	var l *life
	var parent string
	var unwatched []*claim
	for i, lease := range leases {
		c, ok := lease.(*claim)
		if !ok || c.b != b {
			results[i].Err = fmt.Errorf("%w: the lease is not of this backend", driver.ErrRefused)
			continue
		}
		c.mu.Lock()
		if c.state == held {
			l, parent = c.l, c.parent
			if !c.watched {
				unwatched = append(unwatched, c)
			}
		}
		c.mu.Unlock()
	}
	var err error
	if l != nil {
		if err = l.confirm(ctx, parent); errors.Is(err, zk.ErrNoNode) {
			err = nil // who is concerned is told by its watch
		}
		if err == nil {
			err = watchNodes(ctx, unwatched)
		}
	}
	for i, lease := range leases {
		if c, ok := lease.(*claim); ok && results[i].Err == nil {
			results[i] = c.renewal(err)
		}
	}
}

// renewal is what became of the claim when its session was confirmed, or was not because of err.
func (c *claim) renewal(err error) driver.Renewal {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == lost:
		return driver.Renewal{Err: c.cause}
	case c.state != held:
		return driver.Renewal{Err: fmt.Errorf("%w: it was given up", driver.ErrLost)}
	case err != nil:
		return driver.Renewal{Err: explain(err, "confirm", c.parent)}
	}
	return driver.Renewal{Until: c.l.until()}
}

// watchNodes makes sure that the nodes of claims are watched.
func watchNodes(ctx context.Context, claims []*claim) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	var failed atomic.Pointer[error]
	for range min(len(claims), maxArmers) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(claims); i = int(next.Add(1)) - 1 {
				if err := claims[i].watchNode(ctx); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	workers.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// watchNode has the node of a claim that is held watched, and finds out if it is gone.
func (c *claim) watchNode(ctx context.Context) error {
	c.mu.Lock()
	done := c.watched || c.state != held
	c.watched = true // before the watch can fire
	c.mu.Unlock()
	if done {
		return nil
	}
	exists, _, err := c.l.watch(ctx, c.path, c.disturbed)
	switch {
	case err != nil:
		c.mu.Lock()
		c.watched = false
		c.mu.Unlock()
	case !exists:
		c.lose(fmt.Errorf("%w: its node was deleted", driver.ErrLost))
	}
	return err
}

// disturbed is called when something has happened to the node of a claim that is held, or was.
func (c *claim) disturbed() {
	c.mu.Lock()
	c.watched = false
	is := c.state == held
	c.mu.Unlock()
	if is {
		c.l.look(c)
	}
}

// look has the node of c looked at, and watched, at once.
func (l *life) look(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == nil {
		l.armLater(c, 0)
	}
}

// lose makes a claim that is held one that is lost.
func (c *claim) lose(err error) {
	c.mu.Lock()
	is := c.state == held
	if is {
		c.state, c.cause = lost, err
	}
	c.mu.Unlock()
	if is {
		c.l.drop(c)
		if c.req.Lost != nil {
			c.req.Lost(err)
		}
	}
}

// Release implements driver.Lease, in one request.
func (c *claim) Release(ctx context.Context) error {
	c.mu.Lock()
	state, cause := c.state, c.cause
	if state == held {
		c.state = releasing
	}
	c.mu.Unlock()
	c.l.drop(c)
	switch {
	case state == released:
		return nil
	case c.l.ended() != nil:
		err := c.l.lostWith()
		if errors.Is(err, driver.ErrLost) {
			return c.finish(lost, err)
		}
		return err
	case state == lost:
		c.forget()
		return cause
	}
	err := c.l.delete(ctx, c.node())
	switch {
	case err == nil:
		c.l.freed(c.parent, c.node())
		return c.finish(released, nil)
	case errors.Is(err, zk.ErrNoNode):
		return c.finish(lost, fmt.Errorf("%w: its node was deleted before", driver.ErrLost))
	}
	return explain(err, "delete", c.node())
}

// finish ends a claim.
func (c *claim) finish(s state, cause error) error {
	c.mu.Lock()
	c.state, c.cause = s, cause
	c.mu.Unlock()
	c.forget()
	return cause
}

// Abandon implements driver.Backend. What is still on its way to the server is waited for; what was lost on the way is looked for, by
// its GUID.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	c := b.known(claimKey{req.Name, req.Owner})
	if c == nil {
		l, err := b.live(ctx)
		if err != nil {
			return unknown(certainly{err})
		}
		c = b.newClaim(l, req)
		c.unsure = true
	}
	creating, path, unsure := c.abandon()
	if creating != nil {
		select {
		case <-creating.done:
		case <-c.l.ctx.Done():
		case <-ctx.Done():
			return unknown(ctx.Err())
		}
		creating, path, unsure = c.abandon()
	}
	if c.l.ended() != nil { // a session that has ended creates nothing, and takes its nodes with it
		if err := c.l.gone(ctx); err != nil && (creating != nil || path != "" || unsure) {
			return err
		}
		c.forget()
		return nil
	}
	if path == "" && unsure {
		var err error
		if path, err = c.l.findNode(ctx, c.parent, base(c.prefix)); err != nil {
			return explain(err, "list", c.parent)
		}
	}
	if path != "" {
		if err := c.l.delete(ctx, path); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return explain(err, "delete", path)
		}
	}
	c.forget()
	return nil
}

// abandon marks a claim as one that must not be granted any more, and returns what may be left of it.
func (c *claim) abandon() (creating *pending, path string, unsure bool) {
	c.settle()
	c.mu.Lock()
	c.abandoned = true
	if c.state == held || c.state == waiting {
		c.state, c.cause = lost, fmt.Errorf("%w: it was abandoned", driver.ErrLost)
	}
	creating, path, unsure = c.creating, c.path, c.unsure
	c.mu.Unlock()
	c.l.drop(c)
	c.signal()
	return creating, path, unsure
}
