package etcd

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/lockport/lockport/driver"
)

// readAtOnce is how many keys are read in one transaction.
const readAtOnce = 100

// Renew implements driver.Lease.
func (c *claim) Renew(ctx context.Context) (time.Time, error) {
	results := make([]driver.Renewal, 1)
	c.b.RenewBatch(ctx, []driver.Lease{c}, results)
	return results[0].Until, results[0].Err
}

// RenewBatch implements driver.BatchRenewer: a keep-alive for each lease of etcd, of which there is one for each TTL as a rule. That the keys
// are still there is what their watches say; those that are not watched are read.
func (b *Backend) RenewBatch(ctx context.Context, all []driver.Lease, results []driver.Renewal) {
	asked := make(map[*lease]*keeping)
	b.watches.checkUp()
	var unseen []*claim
	for i, one := range all {
		c, ok := one.(*claim)
		if !ok || c.b != b {
			results[i].Err = fmt.Errorf("%w: the lease is not of this backend", driver.ErrRefused)
			continue
		}
		if asked[c.lease] == nil {
			asked[c.lease] = b.leases.keep(c.lease)
		}
		if b.unseen(c) {
			unseen = append(unseen, c)
		}
	}
	b.readKeys(ctx, unseen)
	said := make(map[*lease]driver.Renewal, len(asked))
	for l, k := range asked {
		err := b.leases.wait(ctx, k)
		said[l] = driver.Renewal{Err: err}
		if err == nil {
			said[l] = driver.Renewal{Until: b.leases.validity(l)}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, one := range all {
		c, ok := one.(*claim)
		switch {
		case !ok || c.b != b:
		case c.ended && c.endedAs != nil:
			results[i] = driver.Renewal{Err: c.endedAs}
		case c.ended:
			results[i] = driver.Renewal{Err: fmt.Errorf("%w: it was released", driver.ErrLost)}
		default:
			results[i] = said[c.lease]
		}
	}
}

// unseen reports that the key of c may be gone without a watch having said so.
func (b *Backend) unseen(c *claim) bool {
	b.mu.Lock()
	w := c.watch
	old := !c.ended && time.Since(started)-c.since > c.lease.ttl/spentBelow
	b.mu.Unlock()
	return old && (w == nil || !b.watches.sees(w))
}

// readKeys looks whether the keys of claims are there, and ends those whose are not.
func (b *Backend) readKeys(ctx context.Context, all []*claim) {
	for len(all) > 0 {
		some := all[:min(len(all), readAtOnce)]
		all = all[len(some):]
		w, err := b.link.wires(ctx)
		if err != nil {
			return
		}
		txn := &pb.TxnRequest{}
		for _, c := range some {
			txn.Success = append(txn.Success, get(&pb.RangeRequest{Key: []byte(c.key), KeysOnly: true}))
		}
		r, err := w.kv.Txn(ctx, txn)
		if err != nil {
			return // the renewal will fail too, or the next one will look
		}
		for i, c := range some {
			if kvs, err := rangeAt(r, i); err == nil && (len(kvs.Kvs) == 0 || kvs.Kvs[0].CreateRevision != c.rev) {
				b.removed(c, errKeyGone)
			}
		}
	}
}
