package lib

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockport/lockport/internal/lab/measure"
)

func openEtcd(c measure.Config) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: hosts(c), DialTimeout: 5 * time.Second, Logger: zap.NewNop(), MaxCallRecvMsgSize: math.MaxInt32})
}

func newSession(client *clientv3.Client, c measure.Config) (*concurrency.Session, error) {
	return concurrency.NewSession(client, concurrency.WithTTL(int(math.Ceil(c.TTL.Seconds()))))
}

func openMutexes(_ context.Context, c measure.Config) (l measure.Locker, err error) {
	client, err := openEtcd(c)
	if err != nil {
		return l, err
	}
	all := &sessions{open: func() (*concurrency.Session, error) { return newSession(client, c) }, taken: make(map[string][]bool)}
	return measure.Locker{Close: client.Close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		s, leave, err := all.take(name)
		if err != nil {
			return nil, err
		}
		m := concurrency.NewMutex(s, "/bench/"+name)
		if err := either(wait, m.Lock, m.TryLock)(ctx); err != nil {
			leave()
			return nil, heldIf(errors.Is(err, concurrency.ErrLocked), err)
		}
		return func(ctx context.Context) error {
			defer leave()
			return m.Unlock(ctx)
		}, nil
	}}, nil
}

// sessions gives each goroutine that wants a name a session that nobody else wants it with.
type sessions struct {
	open func() (*concurrency.Session, error)

	mu    sync.Mutex
	all   []*concurrency.Session
	taken map[string][]bool // by name: which sessions hold it or wait for it
}

// take returns the first session that has nothing to do with the name. leave says that it has nothing to do with it any more.
func (s *sessions) take(name string) (_ *concurrency.Session, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.taken[name], false)
	if i < 0 {
		i = len(s.taken[name])
		s.taken[name] = append(s.taken[name], false)
	}
	if i == len(s.all) {
		one, err := s.open()
		if err != nil {
			return nil, nil, err
		}
		s.all = append(s.all, one)
	}
	s.taken[name][i] = true
	return s.all[i], func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.taken[name][i] = false; !slices.Contains(s.taken[name], true) {
			delete(s.taken, name)
		}
	}, nil
}

// openBareEtcd opens the floors. A waiter watches the key.
func openBareEtcd(_ context.Context, c measure.Config) (l measure.Locker, err error) {
	client, err := openEtcd(c)
	if err != nil {
		return l, err
	}
	s, err := newSession(client, c)
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
