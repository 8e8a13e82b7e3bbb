package lib

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/referee/libraries"
)

// openBareEtcd opens the floors. Waiters watch the key.
func openBareEtcd(_ context.Context, rawURL string, ttl time.Duration) (l library.Client, err error) {
	client, err := libraries.Etcd(rawURL)
	if err != nil {
		return l, err
	}
	s, err := libraries.EtcdSession(client, ttl)
	if err != nil {
		return l, err
	}
	return library.Client{Close: client.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		key := "/bench/" + c.Name
		try := func() error {
			r, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
				Then(clientv3.OpPut(key, "", clientv3.WithLease(s.Lease()))).Commit()
			return libraries.HeldIf(err == nil && !r.Succeeded, err)
		}
		release := func(ctx context.Context) error {
			r, err := client.Delete(ctx, key)
			return library.LostIf(err == nil && r.Deleted == 0, err)
		}
		return held(release, claimed(c.Wait, try, func() error { return awaitDelete(ctx, client, key) }))
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
func openRWMutexes(_ context.Context, rawURL string, ttl time.Duration) (l library.Client, err error) {
	client, err := libraries.Etcd(rawURL)
	if err != nil {
		return l, err
	}
	s, err := libraries.EtcdSession(client, ttl)
	return library.Client{Close: client.Close, Take: func(_ context.Context, c library.Claim) (*library.Hold, error) {
		m := recipe.NewRWMutex(s, "/bench/"+c.Name)
		return held(func(context.Context) error { return m.RUnlock() }, m.RLock())
	}}, err
}
