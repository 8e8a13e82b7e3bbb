package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// Inspect implements driver.Inspector.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	for _, prefix := range b.layout.prefixes(name) {
		if all, err := b.read(ctx, prefix); err != nil || len(all) > 0 {
			return append(all, driver.Status{Name: name})[0], err
		}
	}
	return driver.Status{Name: name}, nil
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	escaped := escapeName.Replace(prefix)
	all, err := b.read(ctx, b.layout.prefix+escaped)
	if err != nil || escaped == "" { // an empty prefix has covered the permits
		return all, err
	}
	permits, err := b.read(ctx, b.layout.prefix+permitsTag+escaped)
	return append(all, permits...), err
}

// get reads keys.
func (b *Backend) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return do(ctx, b, false, func(ctx context.Context, client *clientv3.Client) (*clientv3.GetResponse, error) {
		return client.Get(ctx, key, opts...)
	})
}

// read returns the status of every lock, and of every name's permits, whose keys begin with prefix.
func (b *Backend) read(ctx context.Context, prefix string) (all []driver.Status, err error) {
	r, err := b.get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	locks := make(map[string][]entry) // the keys of each
	for _, e := range entries(r) {
		if _, suffix, ok := b.layout.name(e.key); ok {
			lock := strings.TrimSuffix(e.key, suffix)
			locks[lock] = append(locks[lock], e)
		}
	}
	expires := map[clientv3.LeaseID]time.Time{clientv3.NoLease: {}}
	for _, keys := range locks {
		holders := b.layout.holders(keys)
		st, lease := b.layout.claimant(holders[0]), holders[0].lease
		for _, e := range holders[1:] {
			st.Others = append(st.Others, b.layout.claimant(e))
		}
		st.Waiters = len(keys) - len(holders)
		if _, known := expires[lease]; !known {
			if expires[lease], err = b.expiry(ctx, lease); err != nil {
				return nil, err
			}
		}
		st.Expires = expires[lease]
		all = append(all, st)
	}
	return all, nil
}

// expiry returns when a lease expires; zero: it has ended, or the user may not ask.
func (b *Backend) expiry(ctx context.Context, id clientv3.LeaseID) (at time.Time, err error) {
	r, err := do(ctx, b, false, func(ctx context.Context, client *clientv3.Client) (*clientv3.LeaseTimeToLiveResponse, error) {
		return client.TimeToLive(ctx, id)
	})
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound), errors.Is(err, driver.ErrRefused):
		return at, nil
	case err == nil && r.TTL > 0:
		at = time.Now().Add(time.Duration(r.TTL) * time.Second)
	}
	return at, err
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	for _, prefix := range b.layout.prefixes(name) {
		if removed, err := b.removeOwner(ctx, name, prefix, owner, true); err != nil || removed {
			return err
		}
	}
	return fmt.Errorf("%w: %q does not have it", driver.ErrLost, owner)
}

// removeOwner deletes owner's key under prefix, which belongs to name; with holder, only if that claim is held.
func (b *Backend) removeOwner(ctx context.Context, name, prefix, owner string, holder bool) (removed bool, err error) {
	r, err := b.get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return false, err
	}
	keys := entries(r)
	if holder {
		keys = b.layout.holders(keys)
	}
	for _, e := range keys {
		if b.layout.claimant(e).Owner == owner {
			same := []clientv3.Cmp{created(e.key, e.created), clientv3.Compare(clientv3.Value(e.key), "=", e.value)} // nobody attached it meanwhile
			txn, err := b.write(ctx, request{name: name, when: same, then: []clientv3.Op{clientv3.OpDelete(e.key)}})
			return err == nil && txn.Succeeded, err
		}
	}
	return false, nil
}
