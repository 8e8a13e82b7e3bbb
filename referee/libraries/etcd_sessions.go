package libraries

import (
	"math"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// sessions selects the session of each claim for a name, and opens sessions as needed. leave is called when the claim has ended.
type sessions func(open openSession) func(name string) (s *concurrency.Session, leave func() error, err error)

type openSession func() (*concurrency.Session, error)

// EtcdSession opens a session whose TTL is rounded up to seconds.
func EtcdSession(client *clientv3.Client, ttl time.Duration) (*concurrency.Session, error) {
	return concurrency.NewSession(client, concurrency.WithTTL(int(math.Ceil(ttl.Seconds()))))
}

// newSessions opens a session for each claim.
func newSessions(open openSession) func(string) (*concurrency.Session, func() error, error) {
	return func(string) (*concurrency.Session, func() error, error) {
		s, err := open()
		return s, s.Close, err
	}
}

// shared gives all claims one session, and opens another one when it has ended. With spare, a claim gets the first session that no other claim uses
// for the same name.
func shared(spare bool) sessions {
	type use struct {
		name string
		i    int
	}
	return func(open openSession) func(string) (*concurrency.Session, func() error, error) {
		var mu sync.Mutex
		var all []*concurrency.Session
		taken := make(map[use]bool)
		return func(name string) (*concurrency.Session, func() error, error) {
			mu.Lock()
			defer mu.Unlock()
			u := use{name: name}
			for spare && taken[u] {
				u.i++
			}
			if u.i == len(all) {
				all = append(all, nil)
			}
			if all[u.i] == nil || all[u.i].Ctx().Err() != nil {
				s, err := open()
				if err != nil {
					return nil, nil, err
				}
				all[u.i] = s
			}
			taken[u] = true
			return all[u.i], func() error {
				mu.Lock()
				defer mu.Unlock()
				delete(taken, u)
				return nil
			}, nil
		}
	}
}
