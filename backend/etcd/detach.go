package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// errNotDetached: the Attach came too late.
var errNotDetached = fmt.Errorf("%w: the detached claim ended, or was attached already", driver.ErrLost)

// Detach implements driver.Attacher: it moves the key from the shared lease to a lease of its own, which nobody keeps alive. The key keeps its
// create revision.
func (b *Backend) Detach(ctx context.Context, lease driver.Lease) error {
	c := lease.(*claim)
	b.mu.Lock()
	late, ttl := c.late, c.lease.ttl
	b.mu.Unlock()
	alone := newLease(ttl)
	if err := b.create(ctx, alone); err != nil {
		return err
	}
	move := request{
		name: c.req.Name,
		when: []clientv3.Cmp{created(c.key, c.rev), clientv3.Compare(clientv3.Value(c.key), "=", valueOf(c.req.Owner))},
		then: []clientv3.Op{clientv3.OpPut(c.key, valueOf(c.req.Owner), clientv3.WithLease(alone.id))},
	}
	if late { // a late request must not put the key again after whoever attaches it has released it
		move.then = append(move.then, c.putTombstone())
	}
	r, err := b.write(ctx, move)
	switch {
	case err != nil:
		return err
	case !r.Succeeded:
		c.lose() // its release needs no server
		return errKeyGone
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.end(errReleased)
	c.rev, c.late = 0, false // the key may be another client's by now, and late requests find the tombstone
	b.retire(c.lease)        // the key may live on
	b.drop(c)
	return nil
}

// Attach implements driver.Attacher: the key gets the new owner's value and lease, and keeps its create revision.
func (b *Backend) Attach(ctx context.Context, req driver.Request, owner string, token uint64) (driver.Lease, error) {
	return b.attempt(req, func(c *claim) (place, error) { return b.takeOver(ctx, c, owner, int64(token)) })
}

// takeOver is the transaction of Attach. Its errors are classified.
func (b *Backend) takeOver(ctx context.Context, c *claim, owner string, rev int64) (p place, err error) {
	b.mu.Lock()
	l, known := c.lease, c.late || c.rev != 0 // an earlier Attach may have given the key this lease
	b.mu.Unlock()
	if !known {
		if l, err = b.leaseFor(ctx, c.req.TTL); err != nil {
			return p, err
		}
	}
	from, to := c.rivals()
	found, err := b.get(ctx, from, clientv3.WithRange(to), clientv3.WithMinCreateRev(rev), clientv3.WithMaxCreateRev(rev), clientv3.WithKeysOnly())
	switch {
	case err != nil:
		return place{}, err
	case len(found.Kvs) == 0:
		return place{}, errNotDetached
	}
	b.mu.Lock()
	c.lease, c.key = l, string(found.Kvs[0].Key)
	b.mu.Unlock()
	return b.put(ctx, c, func() (p place, err error) {
		r, err := b.write(ctx, request{
			name: c.req.Name,
			when: []clientv3.Cmp{created(b.layout.tombstone(c.req.Owner), 0), created(c.key, rev), clientv3.Compare(clientv3.Value(c.key), "=", valueOf(owner))},
			then: []clientv3.Op{clientv3.OpPut(c.key, valueOf(c.req.Owner), clientv3.WithLease(l.id)),
				opGet(from, to, 1, clientv3.SortAscend, clientv3.WithMinCreateRev(rev+1), clientv3.WithKeysOnly())},
			or: []clientv3.Op{clientv3.OpGet(c.key)},
		})
		if err != nil {
			return p, err
		}
		p.revision = r.Header.Revision
		if r.Succeeded {
			p.contended = len(rangeAt(r, 1).Kvs) > 0
		} else if has := rangeAt(r, 0).Kvs; len(has) == 0 || string(has[0].Value) != valueOf(c.req.Owner) {
			return p, errNotDetached // a repeated request gets the same answer
		}
		c.setRevision(rev)
		return p, nil
	})
}
