package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// Release implements driver.Lease, in one transaction.
func (c *claim) Release(ctx context.Context) error {
	if how := c.startRelease(); how != nil {
		return releaseResult(how)
	}
	r, err := c.b.write(ctx, c.removal())
	switch {
	case isNoSpace(err):
		return c.delete(ctx, err)
	case isLeaseNotFound(err): // then there is nothing to attach a tombstone to
		return c.recordRemoval(false)
	case err != nil:
		return err
	}
	return c.recordRemoval(r.Succeeded)
}

// delete releases c when etcd is out of space: transactions then fail, even those that only delete.
func (c *claim) delete(ctx context.Context, full error) error {
	c.b.mu.Lock()
	again := c.noReuse
	c.noReuse = true
	c.b.mu.Unlock()
	r, err := do(ctx, c.b, true, func(ctx context.Context, client *clientv3.Client) (*clientv3.DeleteResponse, error) {
		return client.Delete(ctx, c.key)
	})
	switch {
	case err != nil:
		return err
	case r.Deleted == 0 && !again: // perhaps the transaction deleted it
		return full
	}
	return c.recordRemoval(r.Deleted > 0)
}

// startRelease ends c's watch before a release. It returns why c has ended already; nil: it has not.
func (c *claim) startRelease() error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.closing = true
	c.unwatch()
	if c.ended != nil {
		c.b.drop(c)
	}
	return c.ended
}

// recordRemoval records the result of removal: whether the key was there.
func (c *claim) recordRemoval(there bool) error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.ended == nil {
		c.ended = errReleased
		if !there {
			c.ended = errKeyGone
		}
	}
	c.b.drop(c)
	return releaseResult(c.ended)
}

// releaseResult turns the end of a claim into the result of Release.
func releaseResult(how error) error {
	if how == errReleased {
		return nil
	}
	return how
}

// Requeue implements driver.Requeuer: one transaction releases and claims.
func (b *Backend) Requeue(ctx context.Context, from driver.Lease, req driver.Request) (driver.Lease, error, error) {
	c, err := b.register(req)
	if err != nil {
		return nil, err, err
	}
	old := from.(*claim)
	how := old.startRelease()
	if how != nil {
		old = nil
	}
	p, err := b.acquire(ctx, c, req.Queue, old)
	if old != nil {
		b.mu.Lock()
		if how = old.ended; how == nil {
			how = fmt.Errorf("%w: %v", driver.ErrUnknown, err)
		}
		b.mu.Unlock()
	}
	lease, err := b.outcome(c, p, err)
	return lease, releaseResult(how), err
}

// Abandon implements driver.Backend. A claim still in flight takes no effect: on arrival it finds its tombstone, or the lease of both
// has ended.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	b.mu.Lock()
	c := b.claims[req.Owner]
	if c == nil || c.req.Name != req.Name {
		b.mu.Unlock()
		_, err := b.removeOwner(ctx, req.Name, b.layout.claimPrefix(req), req.Owner, false)
		return err
	}
	c.closing = true
	c.unwatch()
	asked := c.lease != nil
	b.mu.Unlock()
	if asked {
		if _, err := b.write(ctx, c.removal()); err != nil && !isLeaseNotFound(err) { // without its lease it takes no effect
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.ended = errReleased
	b.drop(c)
	return nil
}

// removal deletes c's key. It leaves a tombstone if a late request may put the key again.
func (c *claim) removal() request {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	r := request{name: c.req.Name, when: []clientv3.Cmp{created(c.key, c.rev)}, then: []clientv3.Op{clientv3.OpDelete(c.key)}}
	if c.rev == 0 { // the key may exist or not
		r.when[0] = clientv3.Compare(clientv3.Value(c.key), "=", valueOf(c.req.Owner))
	}
	if c.late {
		c.b.retire(c.lease)
		r.or = []clientv3.Op{clientv3.OpPut(c.b.layout.tombstone(c.req.Owner), "", clientv3.WithLease(c.lease.id))}
		r.then = append(r.then, r.or...)
	}
	return r
}

// drop forgets c and frees its key for another claim. The mutex is held.
func (b *Backend) drop(c *claim) {
	if b.claims[c.req.Owner] != c {
		return
	}
	delete(b.claims, c.req.Owner)
	if c.lease != nil && !c.noReuse {
		delete(c.lease.keys, c.key)
	}
}
