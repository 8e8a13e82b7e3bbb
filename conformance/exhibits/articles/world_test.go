package articles_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

// world is what a lock runs on: its Redis behind a proxy, or five, of which the last one hangs.
type world struct {
	nodes   []*servers.Redis
	proxies []*faultproxy.Proxy
}

func newWorld(t *testing.T, x articles.Exhibit) *world {
	w := &world{}
	for i := range x.Nodes {
		s := servers.NeedRedis(t, servers.RedisOptions{Own: true})
		proxy, err := faultproxy.New(s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = proxy.Close() })
		w.nodes, w.proxies = append(w.nodes, s), append(w.proxies, proxy)
		if i == 4 {
			proxy.Freeze()
		}
	}
	return w
}

// ttl is what the cases use. Some catch a lock in a fraction of it, which must be long on a busy machine too, or find nothing: that which lies between
// GET and DEL is a quarter.
const ttl = 2 * time.Second

// config is the suite's for x. Faults are those of a single server.
func (w *world) config(x articles.Exhibit) conformance.Config {
	var past, through []string
	for i := range w.nodes {
		past, through = append(past, w.nodes[i].Addr()), append(through, w.proxies[i].Addr())
	}
	target := func(addrs []string) string { return "redis://" + strings.Join(addrs, ",") + "#" + x.Name }
	cfg := conformance.Config{Open: open, Target: target(through), MinTTL: ttl}
	if x.Nodes > 1 {
		cfg.MinTTL = 2 * ttl // so that what a sound lock gives each node is enough on a busy machine
	} else {
		cfg.Direct = target(past)
		cfg.Faults = faults(w.nodes[0], w.proxies[0])
	}
	return cfg
}

// words tell the requests of a sound lock apart.
var words = map[conformance.Op][]byte{conformance.OpAcquire: []byte("'nx'"), conformance.OpRenew: []byte("'pexpire'"), conformance.OpRelease: []byte("del")}

func faults(s *servers.Redis, proxy *faultproxy.Proxy) conformance.Faults {
	is := func(f func()) func(context.Context) error { return func(context.Context) error { f(); return nil } }
	return conformance.Faults{
		Restore: proxy.Restore,
		Sever:   is(proxy.Cut),
		Cut:     is(proxy.KillConns),
		Freeze:  is(proxy.Freeze),
		Delay:   func(_ context.Context, d time.Duration) error { proxy.Delay(d / 2); return nil }, // there and back
		DropReply: func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
			return proxy.DropReply(func(request []byte) bool { return bytes.Contains(request, words[op]) }), nil
		},
		CutAfter: func(_ context.Context, n int) (<-chan struct{}, error) { return proxy.CutAfter(n), nil },
		Remove: func(ctx context.Context, name string) error {
			_, err := s.Do(ctx, "DEL", "lock:"+name)
			return err
		},
		Overwrite: func(ctx context.Context, name string) error {
			_, err := s.Do(ctx, "SET", "lock:"+name, "somebody-else", "PX", time.Hour.Milliseconds())
			return err
		},
		Leftovers: func(ctx context.Context, prefix string) (left []string, _ error) {
			reply, err := s.Do(ctx, "KEYS", "lock:"+prefix+"*")
			keys, _ := reply.([]any)
			for _, k := range keys {
				left = append(left, fmt.Sprint(k))
			}
			return left, err
		},
		Conns:    func(context.Context) (int, error) { return proxy.Conns(), nil },
		Requests: func(context.Context) (int64, error) { return proxy.Requests(), nil },
	}
}
