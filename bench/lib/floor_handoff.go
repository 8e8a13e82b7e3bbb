package lib

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The least that tells a waiter in another process of a release, and has it take the name. One waiter is all that they are good for. Where there is a call
// that waits at the server, as on Postgres and MySQL, that is the floor.
func init() {
	only := []string{"handoff-other"}
	register(Library{
		Name: "PUBLISH, SET NX", Family: "redis", Kind: Floor, Module: "github.com/redis/go-redis/v9", Only: only, Waits: true,
		How: "DEL and PUBLISH in one pipeline; who has subscribed before sends SET NX", Renewal: Never,
		Open: func(ctx context.Context, c Config) (Locker, error) {
			b, err := openBareRedis(ctx, c)
			return published{b}, err
		},
	})
	register(Library{
		Name: "watch, Txn", Family: "etcd", Kind: Floor, Module: etcdModule, Only: only, Waits: true,
		How: "Delete; who has an open watch sends the Txn", Renewal: WithServer,
		Open: func(_ context.Context, c Config) (Locker, error) {
			b, err := openBareEtcd(c)
			return watching{b}, err
		},
	})
	register(Library{
		Name: "exists, create", Family: "zookeeper", Kind: Floor, Module: zkModule, Only: only, Waits: true,
		How: "delete; who has a watch of exists sends the create", Renewal: WithServer,
		Open: func(ctx context.Context, c Config) (Locker, error) {
			z, err := openBareZK(ctx, c)
			return existing{z}, err
		},
	})
}

type published struct{ *bareRedis }

func (p published) Acquire(ctx context.Context, name string) (Hold, error) {
	h, err := p.Try(ctx, name)
	if !errors.Is(err, ErrHeld) {
		return h, err
	}
	told := p.Subscribe(ctx, "released:"+name)
	defer func() { _ = told.Close() }()
	if _, err := told.Receive(ctx); err != nil { // that it is subscribed
		return nil, err
	}
	for {
		if h, err := p.Try(ctx, name); !errors.Is(err, ErrHeld) {
			return h, err
		}
		if _, err := told.ReceiveMessage(ctx); err != nil {
			return nil, err
		}
	}
}

func (p published) Try(ctx context.Context, name string) (Hold, error) {
	h, err := p.bareRedis.Try(ctx, name)
	if err != nil {
		return nil, err
	}
	return publishing{h.(bareKey)}, nil
}

type publishing struct{ bareKey }

func (k publishing) Release(ctx context.Context) error {
	_, err := k.Pipelined(ctx, func(p goredis.Pipeliner) error {
		p.Del(ctx, k.name)
		p.Publish(ctx, "released:"+k.name, "")
		return nil
	})
	return err
}

type watching struct{ *bareEtcd }

func (w watching) Acquire(ctx context.Context, name string) (Hold, error) {
	for {
		h, err := w.Try(ctx, name)
		if !errors.Is(err, ErrHeld) {
			return h, err
		}
		if err := w.wait(ctx, "/bench/"+name); err != nil {
			return nil, err
		}
	}
}

// wait returns when the key has been deleted.
func (w watching) wait(ctx context.Context, key string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := w.Get(ctx, key)
	if err != nil || r.Count == 0 {
		return err
	}
	for seen := range w.Watch(ctx, key, clientv3.WithRev(r.Header.Revision+1), clientv3.WithFilterPut()) {
		if err := seen.Err(); err != nil || len(seen.Events) > 0 {
			return err
		}
	}
	return ctx.Err()
}

type existing struct{ bareZK }

func (e existing) Acquire(ctx context.Context, name string) (Hold, error) {
	for {
		h, err := e.Try(ctx, name)
		if !errors.Is(err, ErrHeld) {
			return h, err
		}
		there, _, gone, err := e.ExistsW("/bench-floor/" + name)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		select {
		case seen := <-gone:
			if seen.Err != nil || seen.Type != zk.EventNodeDeleted {
				return nil, errors.Join(errors.New("the watch has ended"), seen.Err)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
