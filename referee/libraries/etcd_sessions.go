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

// choice is the session that a claim gets.
type choice int

const (
	ownSession   choice = iota // one that the claim opens and closes
	oneSession                 // the client's only one, which is replaced when it has ended
	spareSession               // the client's first one that no other claim uses for the same name
)

// sessions are a client's sessions.
type sessions struct {
	which  choice
	client *clientv3.Client
	ttl    time.Duration

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
	if a.which == ownSession {
		s, err = EtcdSession(a.client, a.ttl)
		return s, s.Close, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	u := use{name: name}
	for a.which == spareSession && a.taken[u] {
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
