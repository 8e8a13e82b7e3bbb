package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Expiry tells when servers let go what a dead holder had.
type Expiry interface {
	// Killed is called when the holder is dead.
	Killed(ctx context.Context) error
	// At is when the server let go of a name, or will; false: it has not been seen.
	At(name string) (faults.Instant, bool)
	Close()
}

// Watch begins to look at names that are held. It is nil where there is nothing to see, since what a dead process had is free at once. The caller must Close it.
func (s *Stage) Watch(ctx context.Context, names []string) (Expiry, error) {
	if s.watch == nil {
		return nil, nil
	}
	return s.watch(ctx, names)
}

// seen is when names were let go. Safe for concurrent use.
type seen struct {
	mu  sync.Mutex
	at  map[string]faults.Instant
	end func()
}

func (s *seen) note(name string, at faults.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[name] == 0 {
		s.at[name] = at
	}
}

func (s *seen) Killed(context.Context) error { return nil }

func (s *seen) At(name string) (faults.Instant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.at[name]
	return at, ok
}

func (s *seen) Close() { s.end() }

// keyTTL asks when keys expire, when nobody renews them any more: for several servers, when so many have expired that a majority is free.
type keyTTL struct {
	seen
	names []string
	nodes []*servers.Redis
}

func watchRedis(nodes ...*servers.Redis) func(context.Context, []string) (Expiry, error) {
	return func(_ context.Context, names []string) (Expiry, error) {
		return &keyTTL{seen{at: make(map[string]faults.Instant), end: func() {}}, names, nodes}, nil
	}
}

func (k *keyTTL) Killed(ctx context.Context) error {
	for _, name := range k.names {
		var ends []faults.Instant
		for _, n := range k.nodes {
			// The keys of lockport, of those who take the name as it is, and of rueidislock.
			for _, key := range []string{"lockport:" + name, name, "rueidislock:0:" + name} {
				left, err := n.Do(ctx, "PTTL", key)
				if err != nil {
					return err
				}
				if ms, ok := left.(int64); ok && ms > 0 {
					ends = append(ends, faults.Now().Add(time.Duration(ms)*time.Millisecond))
				}
			}
		}
		if len(ends) == 0 {
			return fmt.Errorf("no server has a key of %q", name)
		}
		k.note(name, middle(ends))
	}
	return nil
}

// watchEtcd sees which key of a name is deleted first.
func watchEtcd(addr string) func(context.Context, []string) (Expiry, error) {
	return func(ctx context.Context, names []string) (Expiry, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		s := &seen{at: make(map[string]faults.Instant)}
		events := client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
		if first, ok := <-events; !ok || first.Err() != nil {
			cancel()
			return nil, errors.Join(errors.New("the watch has ended"), first.Err(), client.Close())
		}
		var all sync.WaitGroup
		all.Go(func() {
			for r := range events {
				now := faults.Now()
				for _, e := range r.Events {
					for _, name := range names {
						if strings.Contains(string(e.Kv.Key), "/"+name+"/") {
							s.note(name, now)
						}
					}
				}
			}
		})
		s.end = func() {
			cancel()
			all.Wait()
			_ = client.Close()
		}
		return s, nil
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// watchZooKeeper sees which node of a name is deleted first: the other ones are those of waiters, who live.
func watchZooKeeper(addr string) func(context.Context, []string) (Expiry, error) {
	return func(_ context.Context, names []string) (Expiry, error) {
		conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
		if err != nil {
			return nil, err
		}
		s := &seen{at: make(map[string]faults.Instant), end: conn.Close}
		for _, name := range names {
			n := 0
			for _, parent := range []string{"/" + name, "/bench/" + name} {
				children, _, err := conn.Children(parent)
				if err != nil && !errors.Is(err, zk.ErrNoNode) {
					conn.Close()
					return nil, err
				}
				for _, child := range children {
					_, _, gone, err := conn.ExistsW(parent + "/" + child)
					if err != nil {
						conn.Close()
						return nil, err
					}
					n++
					go func() { // it ends with the connection
						if e := <-gone; e.Type == zk.EventNodeDeleted {
							s.note(name, faults.Now())
						}
					}()
				}
			}
			if n == 0 {
				conn.Close()
				return nil, fmt.Errorf("no node of %q is seen", name)
			}
		}
		return s, nil
	}
}

// middle is the one in the middle: what most servers have let go is free.
func middle(ends []faults.Instant) faults.Instant {
	slices.Sort(ends)
	return ends[len(ends)/2]
}
