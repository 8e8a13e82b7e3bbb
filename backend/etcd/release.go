package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// Release implements driver.Lease, in one transaction.
func (c *claim) Release(ctx context.Context) error {
	if ended := c.close(); ended != nil {
		return ended
	}
	r, err := c.b.write(ctx, c.removal())
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return c.delete(ctx, err)
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // then there is nothing to attach a tombstone to
		return c.removed(0)
	case err != nil:
		return err
	}
	return c.removed(deleted(r))
}

// delete releases c when etcd is out of space: transactions then fail, even those that only delete. The deletion compares nothing: if it
// arrives late, it must not find another claim's key.
func (c *claim) delete(ctx context.Context, full error) error {
	c.b.mu.Lock()
	detached := c.rev == 0
	c.b.retire(c.lease)
	c.b.mu.Unlock()
	if detached { // the key may be another client's by now
		return full
	}
	r, err := do(ctx, c.b, true, func(ctx context.Context, client *clientv3.Client) (*clientv3.DeleteResponse, error) {
		return client.Delete(ctx, c.key, clientv3.WithPrevKV())
	})
	switch {
	case err != nil:
		return err
	case r.Deleted == 0: // perhaps the transaction deleted it
		return full
	}
	return c.removed(r.PrevKvs[0].CreateRevision)
}

// close ends c before a release. It returns how c was lost; nil: it was not, as far as is known, or a late request may put its key again, or it was
// detached and nobody may have attached it.
func (c *claim) close() error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.end(errReleased)
	if c.ended != errKeyGone || c.late {
		return nil
	}
	c.b.drop(c)
	return errKeyGone
}

// removed records the create revision of the key that a request deleted; 0: none. It returns the result of the release. Another revision than the
// granted one is that of a late request, which put the key again after it was lost.
func (c *claim) removed(rev int64) error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.b.drop(c)
	if uint64(rev) == c.grant.Token && c.ended != errKeyGone {
		return nil
	}
	return errKeyGone
}

// Requeue implements driver.Requeuer: one transaction releases and claims.
func (b *Backend) Requeue(ctx context.Context, from driver.Lease, req driver.Request) (lease driver.Lease, released, err error) {
	old := from.(*claim)
	if released = old.close(); released != nil {
		lease, err = b.TryAcquire(ctx, req)
		return lease, released, err
	}
	released = driver.ErrUnknown
	send := func(ctx context.Context, txn request) (*clientv3.TxnResponse, error) {
		r, err := b.write(ctx, request{name: txn.name, then: []clientv3.Op{old.removal().op(), txn.op()}})
		if err != nil {
			return nil, err
		}
		released = old.removed(deleted(part(r, 0)))
		return part(r, 1), nil
	}
	lease, err = b.attempt(req, func(c *claim) (place, error) { return b.acquire(ctx, c, req.Queue, send) })
	return lease, released, err
}

// Abandon implements driver.Backend. A claim still in flight takes no effect: on arrival it finds its tombstone, or the lease of both
// has ended.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	b.mu.Lock()
	c := b.claims[req.Owner]
	if c == nil {
		b.mu.Unlock()
		_, err := b.removeOwner(ctx, req.Name, b.layout.claimPrefix(req), req.Owner, false)
		return err
	}
	c.end(errReleased)
	nothing := !c.late && c.rev == 0 // no request of it had an effect
	b.mu.Unlock()
	if !nothing {
		if _, err := b.write(ctx, c.removal()); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) { // without its lease it takes no effect
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(c)
	return nil
}

// removal deletes c's key. It leaves a tombstone if a late request may put the key again.
func (c *claim) removal() request {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	r := request{name: c.req.Name, when: []clientv3.Cmp{created(c.key, c.rev)}, then: []clientv3.Op{clientv3.OpDelete(c.key, clientv3.WithPrevKV())}}
	if c.rev == 0 || c.late { // the key may exist or not, was deleted and put again, or is another client's
		r.when[0] = clientv3.Compare(clientv3.Value(c.key), "=", valueOf(c.req.Owner))
	}
	if c.late {
		c.b.retire(c.lease)
		r.or = []clientv3.Op{c.putTombstone()}
		r.then = append(r.then, r.or...)
	}
	return r
}

// deleted returns the create revision of the key that removal, answered by r, deleted; 0: none.
func deleted(r *clientv3.TxnResponse) int64 {
	if !r.Succeeded {
		return 0
	}
	return r.Responses[0].GetResponseDeleteRange().PrevKvs[0].CreateRevision
}

// putTombstone keeps out late requests for c's key. They are attached to the same lease, so the tombstone ends no earlier.
func (c *claim) putTombstone() clientv3.Op {
	return clientv3.OpPut(c.b.layout.tombstone(c.req.Owner), "", clientv3.WithLease(c.lease.id))
}

// drop forgets c and frees its key for another claim. The mutex is held.
func (b *Backend) drop(c *claim) {
	if b.claims[c.req.Owner] != c {
		return
	}
	delete(b.claims, c.req.Owner)
	if c.lease != nil && b.leases[c.lease.ttl] == c.lease { // not retired
		delete(c.lease.keys, c.key)
	}
}
