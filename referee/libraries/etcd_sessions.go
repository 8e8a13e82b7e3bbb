package libraries

import (
	"math"
	"slices"
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

// oneSession uses one session for all claims, until it ends.
func oneSession(open openSession) func(string) (*concurrency.Session, func() error, error) {
	var mu sync.Mutex
	var ours *concurrency.Session
	return func(string) (*concurrency.Session, func() error, error) {
		mu.Lock()
		defer mu.Unlock()
		if ours != nil && ours.Ctx().Err() == nil {
			return ours, func() error { return nil }, nil
		}
		s, err := open()
		if err == nil {
			ours = s
		}
		return s, func() error { return nil }, err
	}
}

// spareSessions gives each claim the first session that no other claim uses for the same name.
func spareSessions(open openSession) func(string) (*concurrency.Session, func() error, error) {
	var mu sync.Mutex
	var all []*concurrency.Session
	taken := make(map[string][]bool) // by name: which sessions hold it or wait for it
	return func(name string) (*concurrency.Session, func() error, error) {
		mu.Lock()
		defer mu.Unlock()
		i := slices.Index(taken[name], false)
		if i < 0 {
			i = len(taken[name])
			taken[name] = append(taken[name], false)
		}
		if i == len(all) {
			one, err := open()
			if err != nil {
				return nil, nil, err
			}
			all = append(all, one)
		}
		taken[name][i] = true
		return all[i], func() error {
			mu.Lock()
			defer mu.Unlock()
			if taken[name][i] = false; !slices.Contains(taken[name], true) {
				delete(taken, name)
			}
			return nil
		}, nil
	}
}
