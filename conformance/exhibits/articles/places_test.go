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
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// isOp recognizes the requests of a sound lock on Redis.
func isOp(op conformance.Op, request []byte) bool {
	words := map[conformance.Op]string{conformance.OpAcquire: "'nx'", conformance.OpRenew: "'pexpire'", conformance.OpRelease: "del"}
	return bytes.Contains(request, []byte(words[op]))
}

// ttl is the TTL of the cases, unless it is fixed. Some cases must hit a fraction of it even on a busy machine: the time between GET
// and DEL is a quarter.
const ttl = 2 * time.Second

// config returns a Config for x on the nodes, which all locks share. With five servers the last one hangs, and there are no faults.
func config(t *testing.T, x articles.Exhibit, nodes []*servers.Redis) conformance.Config {
	var addrs []string
	for _, node := range nodes[:max(x.Nodes, 1)] {
		addrs = append(addrs, node.Addr())
	}
	target := func(addrs ...string) string { return "redis://" + strings.Join(addrs, ",") + "#" + x.Name }
	if x.Nodes > 1 {
		last := peer.Proxy(t, addrs[4])
		last.Freeze()
		addrs[4] = last.Addr()
		least := 2 * ttl
		if len(x.CaughtBy) == 0 {
			least = 6 * ttl // on a busy machine it must outlast the hanging server's timeouts, and other servers that are slow
		}
		return conformance.Config{Open: open, Target: target(addrs...), MinTTL: least}
	}
	lanes, end, err := faultproxy.Lanes(6, addrs[0], isOp)
	require.NoError(t, err)
	t.Cleanup(end)
	for i := range lanes {
		lanes[i].Target = target(lanes[i].Target)
		addRedis(&lanes[i].Faults, nodes[0])
	}
	return conformance.Config{Open: open, Target: lanes[0].Target, Direct: target(addrs[0]), Faults: lanes[0].Faults, Lanes: lanes[1:], MinTTL: ttl}
}

// addRedis adds the faults of the server.
func addRedis(f *conformance.Faults, s *servers.Redis) {
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
}
