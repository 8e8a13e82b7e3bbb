package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// Release implements driver.Lease, in one transaction.
func (c *claim) Release(ctx context.Context) error {
	if how := c.ending(); how != nil {
		return asReleased(how)
	}
	r, err := c.b.write(ctx, c.removal())
	switch {
	case isFull(err):
		return c.delete(ctx, err)
	case isGone(err): // so that there is nothing to attach a tombstone to
		return c.removed(false)
	case err != nil:
		return err
	}
	return c.removed(r.Succeeded)
}

// delete releases c where etcd is out of space, which a transaction needs though it only deletes.
func (c *claim) delete(ctx context.Context, full error) error {
	c.b.mu.Lock()
	again := c.spent
	c.spent = true
	c.b.mu.Unlock()
	r, err := do(ctx, c.b, true, func(ctx context.Context, client *clientv3.Client) (*clientv3.DeleteResponse, error) {
		return client.Delete(ctx, c.key)
	})
	switch {
	case err != nil:
		return err
	case r.Deleted == 0 && !again: // by the transaction, perhaps
		return full
	}
	return c.removed(r.Deleted > 0)
}

// ending ends the watch of a claim that is about to be released, and returns how it has ended before; nil: it has not.
func (c *claim) ending() error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.closing = true
	c.unwatch()
	if c.over != nil {
		c.b.drop(c)
	}
	return c.over
}

// removed notes the answer to removal: whether the key was there.
func (c *claim) removed(there bool) error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.over == nil {
		c.over = errReleased
		if !there {
			c.over = errKeyGone
		}
	}
	c.b.drop(c)
	return asReleased(c.over)
}

// asReleased is what Release returns of a claim that has ended so.
func asReleased(how error) error {
	if how == errReleased {
		return nil
	}
	return how
}

// Requeue implements driver.Requeuer: the release is part of the transaction of the claim.
func (b *Backend) Requeue(ctx context.Context, from driver.Lease, req driver.Request) (driver.Lease, error, error) {
	c, err := b.enter(req)
	if err != nil {
		return nil, err, err
	}
	old := from.(*claim)
	how := old.ending()
	if how != nil {
		old = nil
	}
	p, err := b.ask(ctx, c, req.Queue, old)
	if old != nil {
		b.mu.Lock()
		if how = old.over; how == nil {
			how = fmt.Errorf("%w: %v", driver.ErrUnknown, err)
		}
		b.mu.Unlock()
	}
	lease, err := b.outcome(c, p, err)
	return lease, asReleased(how), err
}

// Abandon implements driver.Backend. A claim that may still be on its way cannot be entered once it arrives: it finds its tombstone, or the
// lease that both are attached to has ended.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	b.mu.Lock()
	c := b.claims[req.Owner]
	if c == nil || c.req.Name != req.Name {
		b.mu.Unlock()
		_, err := b.removeOwner(ctx, req.Name, b.layout.at(req), req.Owner, false)
		return err
	}
	c.closing = true
	c.unwatch()
	asked := c.lease != nil
	b.mu.Unlock()
	if asked {
		if _, err := b.write(ctx, c.removal()); err != nil && !isGone(err) { // without its lease it cannot be entered
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.over = errReleased
	b.drop(c)
	return nil
}

// removal deletes the key of c, and leaves a tombstone if it may be put again later.
func (c *claim) removal() request {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	r := request{name: c.req.Name, when: []clientv3.Cmp{created(c.key, c.rev)}, then: []clientv3.Op{clientv3.OpDelete(c.key)}}
	if c.rev == 0 { // it may be there or not
		r.when[0] = clientv3.Compare(clientv3.Value(c.key), "=", valueOf(c.req.Owner))
	}
	if c.late {
		c.b.retire(c.lease)
		r.or = []clientv3.Op{clientv3.OpPut(c.b.layout.tombstone(c.req.Owner), "", clientv3.WithLease(c.lease.id))}
		r.then = append(r.then, r.or...)
	}
	return r
}

// drop forgets c, whose key may serve another claim. The mutex is held.
func (b *Backend) drop(c *claim) {
	if b.claims[c.req.Owner] != c {
		return
	}
	delete(b.claims, c.req.Owner)
	if c.lease != nil && !c.spent {
		delete(c.lease.keys, c.key)
	}
}
