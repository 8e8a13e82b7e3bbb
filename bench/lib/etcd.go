package lib

import (
	"context"
	"errors"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

func init() {
	const module = "go.etcd.io/etcd/client/v3"
	register(Library{
		Name: "concurrency.Mutex", Family: "etcd", Kind: Theirs, Module: module,
		How:     "Lock and Unlock; a session for each goroutine that wants the same name, as one session gets in where it already is",
		Renewal: WithServer, Waits: true,
		MostWaiters: 1000, WhyMost: "each takes a session with a lease",
		Open: openMutexes,
	})
	register(Library{
		Name: "Txn, Delete", Family: "etcd", Kind: Floor, Module: module,
		How: "a Txn that puts a key which is not there, on one lease, and a Delete", Renewal: WithServer, Open: openBareEtcd,
	})
	register(Library{
		Name: "watch, Txn", Family: "etcd", Kind: Floor, Module: module, Only: []string{"handoff-other"}, Waits: true,
		How: "Delete; who has an open watch sends the Txn", Renewal: WithServer, Open: openBareEtcd,
	})
}

// etcdClient is a client of the servers that a URL names.
func etcdClient(c Config) (*clientv3.Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{
		Endpoints: strings.Split(u.Host, ","), DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		MaxCallRecvMsgSize: math.MaxInt32,
	})
}

// session begins a session.
func session(client *clientv3.Client, c Config) (*concurrency.Session, error) {
	return concurrency.NewSession(client, concurrency.WithTTL(int(math.Ceil(c.TTL.Seconds()))))
}

func openMutexes(_ context.Context, c Config) (Locker, error) {
	client, err := etcdClient(c)
	if err != nil {
		return nil, err
	}
	all := &sessions{open: func() (*concurrency.Session, error) { return session(client, c) }, taken: make(map[string][]bool)}
	return takes{func(ctx context.Context, name string, wait bool) (release, error) {
		s, leave, err := all.take(name)
		if err != nil {
			return nil, err
		}
		m := concurrency.NewMutex(s, "/bench/"+name)
		lock := m.TryLock
		if wait {
			lock = m.Lock
		}
		if err := lock(ctx); err != nil {
			leave()
			if errors.Is(err, concurrency.ErrLocked) {
				err = ErrHeld
			}
			return nil, err
		}
		return func(ctx context.Context) error {
			defer leave()
			return m.Unlock(ctx)
		}, nil
	}, client.Close}, nil
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
	i := slices.Index(s.taken[name], false)
	if i < 0 {
		i = len(s.taken[name])
		s.taken[name] = append(s.taken[name], false)
	}
	s.taken[name][i] = true
	for i >= len(s.all) {
		s.all = append(s.all, nil)
	}
	found := s.all[i]
	s.mu.Unlock()
	leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.taken[name][i] = false; !slices.Contains(s.taken[name], true) {
			delete(s.taken, name)
		}
	}
	if found != nil {
		return found, leave, nil
	}
	if found, err = s.open(); err != nil {
		leave()
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[i] == nil {
		s.all[i] = found
	} else {
		go func() { _ = found.Close() }() // another goroutine, for another name, was faster
	}
	return s.all[i], leave, nil
}

// openBareEtcd opens the floors. A waiter watches the key.
func openBareEtcd(_ context.Context, c Config) (Locker, error) {
	client, err := etcdClient(c)
	if err != nil {
		return nil, err
	}
	s, err := session(client, c)
	if err != nil {
		return nil, err
	}
	try := func(ctx context.Context, key string) (release, error) {
		r, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, "", clientv3.WithLease(s.Lease()))).Commit()
		if err == nil && !r.Succeeded {
			err = ErrHeld
		}
		return func(ctx context.Context) error {
			r, err := client.Delete(ctx, key)
			return unlessHeld(err == nil && r.Deleted == 1, err)
		}, err
	}
	return takes{func(ctx context.Context, name string, wait bool) (release, error) {
		key := "/bench/" + name
		if !wait {
			return try(ctx, key)
		}
		return untilTaken(func() (release, error) { return try(ctx, key) }, func() error { return awaitDelete(ctx, client, key) })
	}, func() error { return errors.Join(s.Close(), client.Close()) }}, nil
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
