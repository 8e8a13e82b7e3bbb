package lib

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/referee/libraries"
)

// openBareEtcd opens the floors. Waiters watch the key.
func openBareEtcd(_ context.Context, c measure.Config) (l measure.Locker, err error) {
	client, err := libraries.Etcd(c.URL)
	if err != nil {
		return l, err
	}
	s, err := libraries.EtcdSession(client, c.TTL)
	if err != nil {
		return l, err
	}
	return measure.Locker{Close: client.Close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		key := "/bench/" + name
		try := func() error {
			r, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
				Then(clientv3.OpPut(key, "", clientv3.WithLease(s.Lease()))).Commit()
			return heldIf(err == nil && !r.Succeeded, err)
		}
		release := func(ctx context.Context) error {
			r, err := client.Delete(ctx, key)
			return unlessHeld(err == nil && r.Deleted == 1, err)
		}
		if !wait {
			return release, try()
		}
		return release, untilTaken(try, func() error { return awaitDelete(ctx, client, key) })
	}}, nil
}

// awaitDelete returns when the key has been deleted.
func awaitDelete(ctx context.Context, client *clientv3.Client, key string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := client.Get(ctx, key)
	if err != nil || r.Count == 0 {
		return err
	}
	for seen := range client.Watch(ctx, key, clientv3.WithRev(r.Header.Revision+1), clientv3.WithFilterPut()) {
		if err := seen.Err(); err != nil || len(seen.Events) > 0 {
			return err
		}
	}
	return ctx.Err()
}

// openRWMutexes opens the recipe's readers, which support neither contexts nor single attempts. One session may hold many of them.
func openRWMutexes(_ context.Context, c measure.Config) (l measure.Locker, err error) {
	client, err := libraries.Etcd(c.URL)
	if err != nil {
		return l, err
	}
	s, err := libraries.EtcdSession(client, c.TTL)
	return measure.Locker{Close: client.Close, Acquire: func(_ context.Context, name string, _ bool) (measure.Release, error) {
		m := recipe.NewRWMutex(s, "/bench/"+name)
		return func(context.Context) error { return m.RUnlock() }, m.RLock()
	}}, err
}
