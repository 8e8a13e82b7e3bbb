package lib

import (
	"context"
	"errors"
	"math"
	"net/url"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

const etcdModule = "go.etcd.io/etcd/client/v3"

func init() {
	register(Library{
		Name: "concurrency.Mutex", Family: "etcd", Kind: Theirs, Module: etcdModule,
		How:     "Lock and Unlock; a session for each goroutine that wants the same name, as one session gets in where it already is",
		Renewal: WithServer, Waits: true,
		MostWaiters: 1000, WhyMost: "each takes a session with a lease",
		Open: func(_ context.Context, c Config) (Locker, error) {
			client, err := etcdClient(c)
			return &mutexes{client: client, ttl: ttlSeconds(c.TTL), taken: make(map[string][]bool)}, err
		},
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

// ttlSeconds is what leases are granted for.
func ttlSeconds(ttl time.Duration) int { return int(math.Ceil(ttl.Seconds())) }

type mutexes struct {
	client *clientv3.Client
	ttl    int

	mu       sync.Mutex
	sessions []*concurrency.Session
	taken    map[string][]bool // by name: which sessions hold it or wait for it
}

// session is the first that has nothing to do with the name.
func (m *mutexes) session(name string) (*concurrency.Session, int, error) {
	m.mu.Lock()
	taken, i := m.taken[name], 0
	for i < len(taken) && taken[i] {
		i++
	}
	if i == len(taken) {
		taken = append(taken, false)
	}
	taken[i] = true
	m.taken[name] = taken
	for i >= len(m.sessions) {
		m.sessions = append(m.sessions, nil)
	}
	s := m.sessions[i]
	m.mu.Unlock()
	if s != nil {
		return s, i, nil
	}
	s, err := concurrency.NewSession(m.client, concurrency.WithTTL(m.ttl))
	if err != nil {
		m.leave(name, i)
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[i] == nil {
		m.sessions[i] = s
		return s, i, nil
	}
	go func() { _ = s.Close() }() // another goroutine, for another name, was faster
	return m.sessions[i], i, nil
}

// leave says that session i has nothing to do with the name any more.
func (m *mutexes) leave(name string, i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken[name][i] = false
	for _, t := range m.taken[name] {
		if t {
			return
		}
	}
	delete(m.taken, name)
}

func (m *mutexes) Acquire(ctx context.Context, name string) (Hold, error) {
	return m.take(ctx, name, (*concurrency.Mutex).Lock)
}

func (m *mutexes) Try(ctx context.Context, name string) (Hold, error) {
	h, err := m.take(ctx, name, (*concurrency.Mutex).TryLock)
	if errors.Is(err, concurrency.ErrLocked) {
		return nil, ErrHeld
	}
	return h, err
}

func (m *mutexes) take(ctx context.Context, name string, lock func(*concurrency.Mutex, context.Context) error) (Hold, error) {
	s, i, err := m.session(name)
	if err != nil {
		return nil, err
	}
	mutex := concurrency.NewMutex(s, "/bench/"+name)
	if err := lock(mutex, ctx); err != nil {
		m.leave(name, i)
		return nil, err
	}
	return &mutexHold{m, mutex, name, i}, nil
}

func (m *mutexes) Close() error { return m.client.Close() }

type mutexHold struct {
	*mutexes
	mutex   *concurrency.Mutex
	name    string
	session int
}

func (h *mutexHold) Release(ctx context.Context) error {
	defer h.leave(h.name, h.session)
	return h.mutex.Unlock(ctx)
}
