package articles_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

// place returns the servers of x, and its target on them or on proxies before them. Locks on Redis share the nodes.
func place(t *testing.T, x articles.Exhibit, nodes []*servers.Redis) (addrs []string, target func(addrs ...string) string) {
	rawURL := "redis://" // of go-redis
	if x.Postgres {
		p := servers.SharedPostgres(t)
		if slices.Contains(x.CaughtBy, "cost/connections") { // it uses up its server's connections
			p = servers.NeedPostgres(t, servers.PostgresOptions{})
		}
		makeTable(t, p.URL())
		addrs, rawURL = []string{p.Addr()}, p.URL()
	}
	for _, node := range nodes[:min(max(x.Nodes, 1), len(nodes))] {
		addrs = append(addrs, node.Addr())
	}
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	return addrs, func(addrs ...string) string {
		u.Host, u.Fragment = strings.Join(addrs, ","), x.Name
		return u.String()
	}
}

// isOp recognises the requests of a sound lock on Redis.
func isOp(op conformance.Op, request []byte) bool {
	words := map[conformance.Op]string{conformance.OpAcquire: "'nx'", conformance.OpRenew: "'pexpire'", conformance.OpRelease: "del"}
	return bytes.Contains(request, []byte(words[op]))
}

// makeTable creates the table of locks. Concurrent calls would conflict, so they run one at a time.
func makeTable(t *testing.T, url string) {
	oneTable.Lock()
	defer oneTable.Unlock()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), articles.TableSQL)
	require.NoError(t, errors.Join(err, conn.Close(t.Context())))
}

var oneTable sync.Mutex

// ttl is the TTL of the cases, unless it is fixed. Some cases must hit a fraction of it even on a busy machine: the time between GET
// and DEL is a quarter. Within a TTL 205 locks in a table must be granted, while the earlier ones are renewed one by one.
const ttl = 2 * time.Second

// config returns a Config for x. With five servers the last one hangs, and there are no faults.
func config(t *testing.T, x articles.Exhibit, nodes []*servers.Redis) conformance.Config {
	addrs, target := place(t, x, nodes)
	if x.Nodes > 1 {
		last, err := faultproxy.New(addrs[4])
		require.NoError(t, err)
		t.Cleanup(func() { _ = last.Close() })
		last.Freeze()
		addrs[4] = last.Addr()
		least := 2 * ttl
		if len(x.CaughtBy) == 0 {
			least = 3 * ttl // a sound lock's timeout for each node must suffice on a busy machine
		}
		return conformance.Config{Open: open, Target: target(addrs...), MinTTL: least}
	}
	lanes, end, err := faultproxy.Lanes(6, addrs[0], isOp)
	require.NoError(t, err)
	t.Cleanup(end)
	for i := range lanes {
		lanes[i].Target = target(lanes[i].Target)
		if !x.Postgres {
			addRedis(&lanes[i].Faults, nodes[0])
		}
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
