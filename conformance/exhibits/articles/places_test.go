package articles_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

// place is the servers of a lock, and how to open it on them or on proxies before them.
type place struct {
	addrs  []string
	target func(addrs []string) string
	isOp   func(op conformance.Op, request []byte) bool // recognises the requests of a sound lock
}

// at returns a place for x. Locks on Redis share the nodes.
func at(t *testing.T, x articles.Exhibit, nodes []*servers.Redis) place {
	first := func(addrs []string) string { return addrs[0] }
	switch x.Server {
	case articles.Etcd:
		return place{[]string{servers.SharedEtcd(t).Addr()}, first, func(op conformance.Op, request []byte) bool {
			return op == conformance.OpRelease && deletesKey(request)
		}}
	case articles.ZooKeeper:
		return place{[]string{servers.SharedZooKeeper(t).Addr()}, first, nothing}
	case articles.Postgres:
		p := servers.SharedPostgres(t)
		if slices.Contains(x.CaughtBy, "cost/connections") { // it uses up its server's connections
			p = servers.NeedPostgres(t, servers.PostgresOptions{})
		}
		u, err := url.Parse(p.URL())
		require.NoError(t, err)
		makeTable(t, p.URL())
		return place{[]string{p.Addr()}, func(addrs []string) string { u.Host = addrs[0]; return u.String() }, nothing}
	case articles.MySQL:
		m := servers.SharedMariaDB(t)
		config, err := mysql.ParseDSN(m.DSN())
		require.NoError(t, err)
		return place{[]string{m.Addr()}, func(addrs []string) string { config.Addr = addrs[0]; return config.FormatDSN() }, nothing}
	}
	p := place{target: func(addrs []string) string { return "redis://" + strings.Join(addrs, ",") + "#" + x.Name }}
	for _, node := range nodes[:max(x.Nodes, 1)] {
		p.addrs = append(p.addrs, node.Addr())
	}
	words := map[conformance.Op]string{conformance.OpAcquire: "'nx'", conformance.OpRenew: "'pexpire'", conformance.OpRelease: "del"}
	p.isOp = func(op conformance.Op, request []byte) bool { return bytes.Contains(request, []byte(words[op])) }
	return p
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

func nothing(conformance.Op, []byte) bool { return false }

// deletesKey reports whether the HTTP/2 frames contain a request that deletes one key.
func deletesKey(request []byte) bool {
	for len(request) >= 9 {
		size, kind, body := int(binary.BigEndian.Uint32(request)>>8), request[3], request[9:]
		if size > len(body) {
			break
		}
		if kind == 0 && size > 7 {
			message := body[5:size]
			if message[0] == 10 && int(message[1]) == len(message)-2 && bytes.HasPrefix(message[2:], []byte(articles.EtcdPrefix)) {
				return true
			}
		}
		request = body[size:]
	}
	return false
}

// ttl is the TTL of the cases, unless it is fixed. Some cases must hit a fraction of it even on a busy machine: the time between GET
// and DEL is a quarter. Within a TTL 205 locks in a table must be granted, while the earlier ones are renewed one by one.
const ttl = 2 * time.Second

// config returns a Config for x. With five servers the last one hangs, and there are no faults.
func config(t *testing.T, x articles.Exhibit, nodes []*servers.Redis) conformance.Config {
	p := at(t, x, nodes)
	if x.Nodes > 1 {
		last, err := faultproxy.New(p.addrs[4])
		require.NoError(t, err)
		t.Cleanup(func() { _ = last.Close() })
		last.Freeze()
		target := p.target(append(p.addrs[:4:4], last.Addr()))
		return conformance.Config{Open: open, Target: target, MinTTL: 2 * ttl} // a sound lock's timeout for each node must suffice on a busy machine
	}
	lanes, end, err := faultproxy.Lanes(6, p.addrs[0], p.isOp)
	require.NoError(t, err)
	t.Cleanup(end)
	for i := range lanes {
		lanes[i].Target = p.target([]string{lanes[i].Target})
		if x.Server == articles.Redis {
			addRedis(&lanes[i].Faults, nodes[0])
		}
	}
	cfg := conformance.Config{Open: x.Open, Target: lanes[0].Target, Direct: p.target(p.addrs), Faults: lanes[0].Faults, MinTTL: ttl}
	if x.Server == articles.Redis {
		cfg.Open, cfg.Lanes = open, lanes[1:]
	}
	return cfg
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
