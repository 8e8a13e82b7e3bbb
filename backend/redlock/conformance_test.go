package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

var defaultLayout = redisscript.Layout{Prefix: redisscript.DefaultPrefix}

// savingNodes keep their data over a stop, without a write to the disk for every change, which five of them on one machine are slow at.
var savingNodes = servers.RedisOptions{Own: true, Save: "3600 1"}

func TestConformance(t *testing.T) {
	x := newNodes(t, 5, savingNodes)
	conformance.Test(t, x.config(t))
}

func TestConformanceOfThree(t *testing.T) {
	x := newNodes(t, 3, savingNodes)
	conformance.Test(t, x.config(t))
}

// One of five is dead from the start.
func TestConformanceWithADeadNode(t *testing.T) {
	x := newNodes(t, 5, savingNodes)
	x.kill(t, 1)
	conformance.Test(t, x.config(t))
}

// nodes are servers behind a proxy each.
type nodes struct {
	servers []*servers.Redis
	proxies []*faultproxy.Proxy
	dead    map[int]bool
}

func newNodes(t testing.TB, n int, o servers.RedisOptions) *nodes {
	x := &nodes{dead: make(map[int]bool)}
	for range n {
		s := servers.NeedRedis(t, o)
		proxy, err := faultproxy.New(s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = proxy.Close() })
		x.servers, x.proxies = append(x.servers, s), append(x.proxies, proxy)
	}
	return x
}

// url leads past the proxies.
func (x *nodes) url() string {
	var addrs []string
	for _, s := range x.servers {
		addrs = append(addrs, s.Addr())
	}
	return "redlock://" + strings.Join(addrs, ",")
}

// proxied is the URL through the proxies.
func (x *nodes) proxied() string {
	var addrs []string
	for _, p := range x.proxies {
		addrs = append(addrs, p.Addr())
	}
	return "redlock://" + strings.Join(addrs, ",")
}

func (x *nodes) kill(t testing.TB, which ...int) {
	for _, i := range which {
		x.dead[i] = true
		require.NoError(t, x.servers[i].Kill())
	}
}

func (x *nodes) config(t *testing.T) conformance.Config {
	return conformance.Config{Open: openURL, Target: x.proxied(), Direct: x.url(), Faults: x.faults(),
		MinTTL: 1500 * time.Millisecond} // five servers share one machine
}

// each calls f for every node that lives.
func (x *nodes) each(f func(i int) error) error {
	errs := make([]error, len(x.servers))
	var all sync.WaitGroup
	for i := range x.servers {
		if !x.dead[i] {
			all.Go(func() { errs[i] = f(i) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// faults act on all nodes at once.
func (x *nodes) faults() conformance.Faults {
	always := func(f func(*faultproxy.Proxy)) func(context.Context) error {
		return func(context.Context) error {
			for _, p := range x.proxies {
				f(p)
			}
			return nil
		}
	}
	do := func(ctx context.Context, args ...any) error {
		return x.each(func(i int) error { _, err := x.servers[i].Do(ctx, args...); return err })
	}
	return conformance.Faults{
		Restore: func() { _ = always((*faultproxy.Proxy).Restore)(context.Background()) },
		Sever:   always((*faultproxy.Proxy).Cut),
		Cut:     always((*faultproxy.Proxy).KillConns),
		Freeze:  always((*faultproxy.Proxy).Freeze),
		Delay: func(ctx context.Context, d time.Duration) error {
			return always(func(p *faultproxy.Proxy) { p.Delay(d / 2) })(ctx) // there and back
		},
		DropReply: func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
			return x.all(func(p *faultproxy.Proxy) <-chan struct{} {
				return p.DropReply(func(request []byte) bool { return isOp(op, request) })
			}), nil
		},
		CutAfter: func(_ context.Context, n int) (<-chan struct{}, error) {
			return x.all(func(p *faultproxy.Proxy) <-chan struct{} { return p.CutAfter(n) }), nil
		},
		Remove: func(ctx context.Context, name string) error { return do(ctx, "DEL", defaultLayout.Key(name)) },
		Overwrite: func(ctx context.Context, name string) error {
			return do(ctx, "SET", defaultLayout.Key(name), "somebody-else", "PX", time.Hour.Milliseconds())
		},
		Restart: x.restart,
		Leftovers: func(ctx context.Context, prefix string) ([]string, error) {
			var mu sync.Mutex
			nodes := make(map[string][]string) // that have a key
			err := x.each(func(i int) error {
				keys, err := leftovers(ctx, x.servers[i], prefix)
				mu.Lock()
				defer mu.Unlock()
				for _, key := range keys {
					nodes[key] = append(nodes[key], x.servers[i].Addr())
				}
				return err
			})
			var left []string
			for key, at := range nodes {
				// A node that could not be reached when a claim was given up keeps its place in the queue for up to 30 s, as the page says. It is
				// advice; a majority must not keep it.
				if _, queue := redisscript.SideOf(key, queueKey); !queue || len(at) > len(x.servers)/2 {
					left = append(left, fmt.Sprint(key, at))
				}
			}
			return left, err
		},
		Conns: func(context.Context) (n int, _ error) {
			for _, p := range x.proxies {
				n += p.Conns()
			}
			return n, nil
		},
		Requests: func(context.Context) (n int64, _ error) {
			for i, p := range x.proxies {
				if !x.dead[i] {
					n = max(n, p.Requests())
				}
			}
			return n, nil // of one node, as each has the same
		},
	}
}

// all produces a fault at every proxy of a living node. The channel is closed when it has happened at all of them.
func (x *nodes) all(fault func(*faultproxy.Proxy) <-chan struct{}) <-chan struct{} {
	var each []<-chan struct{}
	for i, p := range x.proxies {
		if !x.dead[i] {
			each = append(each, fault(p))
		}
	}
	done := make(chan struct{})
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		for _, c := range each {
			<-c
		}
		close(done)
	}()
	return done
}

// isOp tells requests apart by the scripts that they call.
func isOp(op conformance.Op, request []byte) bool {
	switch op {
	case conformance.OpAcquire:
		return redisscript.QuorumAcquire.Names(request)
	case conformance.OpRenew:
		return redisscript.QuorumRenew.Names(request)
	case conformance.OpRelease:
		return redisscript.QuorumRelease.Names(request)
	}
	return true
}

// restart restarts all nodes at once.
func (x *nodes) restart(ctx context.Context, keepData bool) error {
	return x.each(func(i int) error {
		s := x.servers[i]
		if !keepData {
			if _, err := s.Do(ctx, "FLUSHALL"); err != nil {
				return err
			}
		}
		if err := s.Stop(); err != nil {
			return err
		}
		// The goroutine that waits for the process is not the case's, by whose labels the suite looks for leaks.
		pprof.SetGoroutineLabels(context.Background())
		return s.Restart(ctx)
	})
}

// leftovers are the keys that a node has for names that start with prefix.
func leftovers(ctx context.Context, s *servers.Redis, prefix string) ([]string, error) {
	reply, err := s.Do(ctx, "KEYS", "*"+redisscript.GlobEscape(defaultLayout.Key(prefix))+"*")
	if err != nil {
		return nil, err
	}
	var left []string
	keys, _ := reply.([]any)
	for _, k := range keys {
		key := fmt.Sprint(k)
		if _, queue := redisscript.SideOf(key, queueKey); queue {
			// An abandoned claim may be remembered for its minute.
			if n, err := s.Do(ctx, "ZCOUNT", key, "-inf", "(4000000000000000"); err != nil || n == int64(0) {
				continue
			}
		}
		left = append(left, key)
	}
	return left, nil
}
