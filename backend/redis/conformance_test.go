package redis

import (
	"context"
	"fmt"
	"net/url"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

var defaultLayout = redisscript.Layout{Prefix: redisscript.DefaultPrefix}

func TestConformance(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{Own: true, AppendOnly: true})
	lane := func() conformance.Lane {
		proxy, err := faultproxy.New(s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = proxy.Close() })
		return conformance.Lane{Target: via(t, s.URL(), proxy.Addr()), Faults: faults(s, proxy)}
	}
	first := lane()
	conformance.Test(t, conformance.Config{
		Open:   openURL,
		Target: first.Target,
		Direct: s.URL(),
		Faults: first.Faults,
		Lanes:  []conformance.Lane{lane(), lane(), lane(), lane()},
	})
}

// via is rawURL with another address.
func via(t *testing.T, rawURL, addr string) string {
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	u.Host = addr
	return u.String()
}

// faults are those of a single server behind a proxy.
func faults(s *servers.Redis, proxy *faultproxy.Proxy) conformance.Faults {
	f := keyFaults(func(ctx context.Context, _ string, args ...any) (any, error) { return s.Do(ctx, args...) }, []*servers.Redis{s})
	f.Restore = proxy.Restore
	f.Sever = func(context.Context) error { proxy.Cut(); return nil }
	f.Cut = func(context.Context) error { proxy.KillConns(); return nil }
	f.Freeze = func(context.Context) error { proxy.Freeze(); return nil }
	f.Delay = func(_ context.Context, d time.Duration) error { proxy.Delay(d / 2); return nil } // there and back
	f.DropReply = func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
		return proxy.DropReply(func(request []byte) bool { return isOp(op, request) }), nil
	}
	f.CutAfter = func(_ context.Context, n int) (<-chan struct{}, error) { return proxy.CutAfter(n), nil }
	f.Conns = func(context.Context) (int, error) { return proxy.Conns(), nil }
	f.Requests = func(context.Context) (int64, error) { return proxy.Requests(), nil }
	f.Restart = func(ctx context.Context, keepData bool) error {
		if !keepData {
			if _, err := s.Do(ctx, "FLUSHALL"); err != nil {
				return err
			}
		}
		if err := s.Stop(); err != nil {
			return err
		}
		// The goroutine that waits for the process is not the case's, by whose labels the suite looks for leaks.
		done := make(chan error)
		go func() {
			pprof.SetGoroutineLabels(context.Background())
			done <- s.Restart(ctx)
		}()
		return <-done
	}
	return f
}

// isOp tells requests apart by the scripts that they call.
func isOp(op conformance.Op, request []byte) bool {
	switch op {
	case conformance.OpAcquire:
		return redisscript.Acquire.Names(request) || redisscript.Requeue.Names(request)
	case conformance.OpRenew:
		return redisscript.Renew.Names(request)
	case conformance.OpRelease:
		return redisscript.Release.Names(request)
	}
	return true
}

// keyFaults are those that need no proxy. do runs a command on the node that has the key.
func keyFaults(do func(ctx context.Context, key string, args ...any) (any, error), nodes []*servers.Redis) conformance.Faults {
	return conformance.Faults{
		Remove: func(ctx context.Context, name string) error {
			key := defaultLayout.Key(name)
			_, err := do(ctx, key, "DEL", key)
			return err
		},
		Overwrite: func(ctx context.Context, name string) error {
			key := defaultLayout.Key(name)
			_, err := do(ctx, key, "SET", key, "somebody-else", "PX", time.Hour.Milliseconds())
			return err
		},
		Leftovers: func(ctx context.Context, prefix string) ([]string, error) {
			var left []string
			for _, node := range nodes {
				reply, err := node.Do(ctx, "KEYS", "*"+redisscript.GlobEscape(defaultLayout.Key(prefix))+"*")
				if err != nil {
					return nil, err
				}
				keys, _ := reply.([]any)
				for _, k := range keys {
					key := fmt.Sprint(k)
					if _, token := redisscript.SideOf(key, tokenKey); token {
						continue
					}
					if _, queue := redisscript.SideOf(key, queueKey); queue {
						// An abandoned claim may be remembered for its minute.
						if n, err := node.Do(ctx, "ZCOUNT", key, "-inf", "(4000000000000000"); err != nil || n == int64(0) {
							continue
						}
					}
					left = append(left, key)
				}
			}
			return left, nil
		},
	}
}

func TestConformanceSentinel(t *testing.T) {
	s := servers.NeedSentinel(t, servers.SentinelOptions{})
	conformance.Test(t, conformance.Config{
		Open:   openURL,
		Target: s.URL(),
		Faults: keyFaults(func(ctx context.Context, _ string, args ...any) (any, error) {
			master, err := s.Master(ctx)
			if err != nil {
				return nil, err
			}
			return master.Do(ctx, args...)
		}, s.Nodes),
	})
}

func TestConformanceCluster(t *testing.T) {
	c := servers.NeedCluster(t, servers.RedisOptions{})
	conformance.Test(t, conformance.Config{
		Open:   openURL,
		Target: clusterURL(c),
		Faults: keyFaults(func(ctx context.Context, key string, args ...any) (any, error) { return onNode(ctx, c, args...) }, c.Nodes),
	})
}

// onNode runs a command on the node of the cluster that accepts it.
func onNode(ctx context.Context, c *servers.Cluster, args ...any) (reply any, err error) {
	for _, node := range c.Nodes {
		if reply, err = node.Do(ctx, args...); err == nil || !strings.Contains(err.Error(), "MOVED ") {
			break
		}
	}
	return reply, err
}

func clusterURL(c *servers.Cluster) string {
	return "redis+cluster://" + c.Addrs()[0] + "?" + url.Values{"addr": c.Addrs()[1:]}.Encode()
}
