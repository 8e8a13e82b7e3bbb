package etcd

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// listPage is how many keys List asks for at once.
const listPage = 1000

// Inspect implements driver.Inspector.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	all, err := b.read(ctx, b.layout.of(name))
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
	}
	return driver.Status{Name: name}, err
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	return b.read(ctx, b.layout.prefix+escapeName.Replace(prefix))
}

// read returns the status of every lock whose keys begin with within.
func (b *Backend) read(ctx context.Context, within string) (all []driver.Status, err error) {
	client, err := b.ready(ctx)
	if err != nil {
		return nil, err
	}
	var leases []clientv3.LeaseID // of the holders of all
	opts := []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(within)), clientv3.WithLimit(listPage)}
	for from, more := cmp.Or(within, "\x00"), true; more; {
		r, err := client.Get(ctx, from, opts...)
		if err != nil {
			return nil, classify(ctx, err, false)
		}
		for _, kv := range r.Kvs {
			name, _, ok := b.layout.name(string(kv.Key))
			if !ok {
				continue
			}
			last, waiters := len(all)-1, 0
			if last < 0 || all[last].Name != name {
				all, leases = append(all, driver.Status{Token: math.MaxUint64}), append(leases, 0)
				last++
			} else {
				waiters = all[last].Waiters + 1
			}
			if token := uint64(kv.CreateRevision); token < all[last].Token {
				all[last], leases[last] = driver.Status{Name: name, Held: true, Token: token}, clientv3.LeaseID(kv.Lease)
				all[last].Owner, all[last].Foreign = b.layout.ownerOf(kv.Key, kv.Value)
			}
			all[last].Waiters = waiters
			from = string(kv.Key) + "\x00"
		}
		more = r.More && len(r.Kvs) > 0
		opts = append(opts[:2], clientv3.WithRev(r.Header.Revision)) // all pages show the same moment
	}
	expires := map[clientv3.LeaseID]time.Time{clientv3.NoLease: {}}
	for i, id := range leases {
		at, known := expires[id]
		if !known {
			r, err := client.TimeToLive(ctx, id)
			if err = classify(ctx, err, false); err != nil && !isRejected(err) { // gone, or not to be asked for
				return nil, err
			}
			if err == nil && r.TTL > 0 {
				at = time.Now().Add(time.Duration(r.TTL) * time.Second)
			}
			expires[id] = at
		}
		all[i].Expires = at
	}
	return all, nil
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	removed, err := b.removeOwner(ctx, name, owner, 1)
	if err == nil && !removed {
		err = fmt.Errorf("%w: %q does not have it", driver.ErrLost, owner)
	}
	return err
}

// removeOwner deletes the key of owner, if it is one of the first n of name; 0: one of all.
func (b *Backend) removeOwner(ctx context.Context, name, owner string, n int64) (removed bool, err error) {
	client, err := b.ready(ctx)
	if err != nil {
		return false, err
	}
	r, err := client.Do(ctx, opGet(b.layout.of(name), n, clientv3.SortAscend))
	if err != nil {
		return false, classify(ctx, err, false)
	}
	for _, kv := range r.Get().Kvs {
		if has, _ := b.layout.ownerOf(kv.Key, kv.Value); has == owner {
			key := string(kv.Key)
			txn, err := b.write(ctx, request{name: name, when: []clientv3.Cmp{created(key, kv.CreateRevision)}, then: []clientv3.Op{clientv3.OpDelete(key)}})
			return err == nil && txn.Succeeded, err
		}
	}
	return false, nil
}
