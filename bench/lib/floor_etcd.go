package lib

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func init() {
	register(Library{
		Name: "Txn, Delete", Family: "etcd", Kind: Floor, Module: etcdModule,
		How: "a Txn that puts a key which is not there, on one lease, and a Delete", Renewal: WithServer,
		Open: func(_ context.Context, c Config) (Locker, error) { return openBareEtcd(c) },
	})
}

func openBareEtcd(c Config) (*bareEtcd, error) {
	client, err := etcdClient(c)
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(client, concurrency.WithTTL(ttlSeconds(c.TTL)))
	return &bareEtcd{client, s}, err
}

type bareEtcd struct {
	*clientv3.Client
	session *concurrency.Session
}

// Acquire does not wait.
func (b *bareEtcd) Acquire(ctx context.Context, name string) (Hold, error) { return b.Try(ctx, name) }

func (b *bareEtcd) Try(ctx context.Context, name string) (Hold, error) {
	key := "/bench/" + name
	r, err := b.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, "", clientv3.WithLease(b.session.Lease()))).Commit()
	if err != nil {
		return nil, err
	}
	if !r.Succeeded {
		return nil, ErrHeld
	}
	return &etcdKey{b, key}, nil
}

func (b *bareEtcd) Close() error { return errors.Join(b.session.Close(), b.Client.Close()) }

type etcdKey struct {
	*bareEtcd
	key string
}

func (k *etcdKey) Release(ctx context.Context) error {
	r, err := k.Delete(ctx, k.key)
	if err == nil && r.Deleted != 1 {
		err = errors.New("it was not held")
	}
	return err
}
