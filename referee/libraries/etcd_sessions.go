package libraries

import (
	"math"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// EtcdSession opens a session whose TTL is rounded up to seconds.
func EtcdSession(client *clientv3.Client, ttl time.Duration) (*concurrency.Session, error) {
	return concurrency.NewSession(client, concurrency.WithTTL(int(math.Ceil(ttl.Seconds()))))
}

// sessions are a client's sessions. Each claim opens its own, or all share one, which is replaced when it has ended. With spare, a claim gets the first
// one that no other claim uses for the same name.
type sessions struct {
	shared, spare bool
	client        *clientv3.Client
	ttl           time.Duration

	mu    sync.Mutex
	all   map[int]*concurrency.Session
	taken map[use]bool
}

type use struct {
	name string
	i    int
}

// of returns the session of a claim for a name. Call leave when the claim has ended.
func (a *sessions) of(name string) (s *concurrency.Session, leave func() error, err error) {
	if !a.shared {
		s, err = EtcdSession(a.client, a.ttl)
		return s, s.Close, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	u := use{name: name}
	for a.spare && a.taken[u] {
		u.i++
	}
	if s = a.all[u.i]; s == nil || s.Ctx().Err() != nil {
		if s, err = EtcdSession(a.client, a.ttl); err != nil {
			return nil, nil, err
		}
		a.all[u.i] = s
	}
	a.taken[u] = true
	return s, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.taken, u)
		return nil
	}, nil
}
