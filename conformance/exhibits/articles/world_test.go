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

// nodes are the servers that all locks share: one, or five.
type nodes map[int][]*servers.Redis

func newNodes(t *testing.T) nodes {
	all := make(nodes)
	for range 5 {
		all[5] = append(all[5], servers.NeedRedis(t, servers.RedisOptions{Own: true}))
	}
	all[1] = all[5][:1]
	return all
}

// ttl is what the cases use. Some catch a lock in a fraction of it, which must be long on a busy machine too, or find nothing: that which lies between
// GET and DEL is a quarter.
const ttl = 2 * time.Second

// config is the suite's for x, behind proxies of its own. Of five the last one hangs. Faults are those of a single server.
func (all nodes) config(t *testing.T, x articles.Exhibit) conformance.Config {
	on := all[x.Nodes]
	target := func(addrs []string) string { return "redis://" + strings.Join(addrs, ",") + "#" + x.Name }
	lane := func() conformance.Lane {
		var proxies faultproxy.Group
		var addrs []string
		for _, s := range on {
			proxy, err := faultproxy.New(s.Addr())
			require.NoError(t, err)
			t.Cleanup(func() { _ = proxy.Close() })
			proxies, addrs = append(proxies, proxy), append(addrs, proxy.Addr())
		}
		if x.Nodes == 5 {
			proxies[4].Freeze()
			return conformance.Lane{Target: target(addrs)}
		}
		return conformance.Lane{Target: target(addrs), Faults: faults(on[0], proxies)}
	}
	first := lane()
	cfg := conformance.Config{Open: open, Target: first.Target, Faults: first.Faults, MinTTL: ttl}
	if x.Nodes == 5 {
		cfg.MinTTL = 2 * ttl // so that what a sound lock gives each node is enough on a busy machine
		return cfg
	}
	cfg.Direct = target([]string{on[0].Addr()})
	cfg.Lanes = []conformance.Lane{lane(), lane(), lane(), lane(), lane()}
	return cfg
}

// words tell the requests of a sound lock apart.
var words = map[conformance.Op][]byte{conformance.OpAcquire: []byte("'nx'"), conformance.OpRenew: []byte("'pexpire'"), conformance.OpRelease: []byte("del")}

func faults(s *servers.Redis, proxies faultproxy.Group) conformance.Faults {
	f := proxies.Faults(func(op conformance.Op, request []byte) bool { return bytes.Contains(request, words[op]) })
	f.Remove = func(ctx context.Context, name string) error {
		_, err := s.Do(ctx, "DEL", "lock:"+name)
		return err
	}
	f.Overwrite = func(ctx context.Context, name string) error {
		_, err := s.Do(ctx, "SET", "lock:"+name, "somebody-else", "PX", time.Hour.Milliseconds())
		return err
	}
	f.Leftovers = func(ctx context.Context, prefix string) (left []string, _ error) {
		reply, err := s.Do(ctx, "KEYS", "lock:"+prefix+"*")
		keys, _ := reply.([]any)
		for _, k := range keys {
			left = append(left, fmt.Sprint(k))
		}
		return left, err
	}
	return f
}
