package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

const soon = peer.Soon

func TestMain(m *testing.M) { peer.Main(m, 0) }

// client is a separate backend, equivalent to another machine.
type client struct {
	*Backend
	*peer.Peer
}

func newClient(t testing.TB, rawURL, name string) *client {
	return clientOf(t, peer.Opened(t, rawURL), name)
}

// clientOf makes a client with the backend b.
func clientOf(t testing.TB, b driver.Backend, name string) *client {
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return &client{b.(*Backend), &peer.Peer{T: t, Of: b, Name: name, Heard: b.(*Backend).claims.Heard}}
}

// clientOn makes a client on new clients of the nodes, whose options set changes.
func clientOn(t testing.TB, x *nodes, set func(i int, o *goredis.Options)) *client {
	var all []*goredis.Client
	for i, s := range x.servers {
		o := peer.Must(goredis.ParseURL(s.URL()))(t)
		set(i, o)
		c := goredis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		all = append(all, c)
	}
	return clientOf(t, peer.Must(NewBackend(all, Options{NodeTimeout: 2 * time.Second}))(t), "a")
}

// nodes are servers, each behind a proxy.
type nodes struct {
	servers  []*servers.Redis
	proxies  faultproxy.Group
	down     map[int]bool
	releases atomic.Int64 // written to the first node, by clients of detour
}

func newNodes(t testing.TB, n int, o servers.RedisOptions) *nodes {
	x := &nodes{down: make(map[int]bool)}
	for range n {
		s := servers.NeedRedis(t, o)
		x.servers, x.proxies = append(x.servers, s), append(x.proxies, peer.Proxy(t, s.Addr()))
	}
	return x
}

func urlTo[S interface{ Addr() string }](nodes ...S) string {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	return urlOf(addrs...)
}

// url is the URL without the proxies.
func (x *nodes) url() string { return urlTo(x.servers...) }

// proxied is the URL through the proxies.
func (x *nodes) proxied() string { return urlTo(x.proxies...) }

// each applies a fault, or its end, to servers. down: they do not answer from then on.
func (x *nodes) each(t testing.TB, down bool, fault func(*servers.Redis) error, which ...int) {
	t.Helper()
	for _, i := range which {
		require.NoError(t, fault(x.servers[i]))
		x.down[i] = down
	}
}

// do runs a command without the backend.
var do = servers.Do

// does is do for each, on nodes that answer.
func does(args ...any) func(*servers.Redis) error {
	return func(s *servers.Redis) error { return peer.ErrOf(s.Do(context.Background(), args...)) }
}

// Servers that refuse all scripts, and that run them again.
var (
	refuses = does("ACL", "SETUSER", "default", "-@scripting")
	serves  = does("ACL", "SETUSER", "default", "+@scripting")
)

// having counts the live nodes that have the key.
func (x *nodes) having(t testing.TB, key string) int {
	n := 0
	for i, s := range x.servers {
		if !x.down[i] && do(t, s, "EXISTS", key) == int64(1) {
			n++
		}
	}
	return n
}

// empty waits until live nodes have nothing of name but tombstones.
func (x *nodes) empty(t testing.TB, name string) {
	t.Helper()
	peer.Until(t, func() bool {
		var left int64
		for i, s := range x.servers {
			if !x.down[i] {
				left += do(t, s, "EXISTS", key(name)).(int64) + do(t, s, "ZCOUNT", queueOf(name), "-inf", "(4000000000000000").(int64)
			}
		}
		return left == 0
	})
}

// full waits until all nodes have the lock on name: a claim waits only for a majority.
func (x *nodes) full(t testing.TB, name string) {
	t.Helper()
	peer.Until(t, func() bool { return x.having(t, key(name)) == len(x.servers) })
}

// plainNodes makes nodes for a test that runs beside others.
func plainNodes(t *testing.T, n int) *nodes {
	t.Helper()
	t.Parallel()
	return newNodes(t, n, servers.RedisOptions{})
}

func key(name string) string { return redisscript.Layout{Prefix: redisscript.DefaultPrefix}.Key(name) }

func queueOf(name string) string { return redisscript.Side(key(name), redisscript.QueueKey) }

// answer is the outcome of a script call on one node.
func (c *client) answer(i int, script *redisscript.Script, keys []string, argv ...any) error {
	return c.nodes[i].run(context.Background(), soon, script, keys, argv...).Err
}

// rests has node i rest for d, for reason; "" ends its rest.
func (c *client) rests(i int, reason string, d time.Duration) {
	n := c.nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restReason, n.restEnd = reason, time.Now().Add(d)
}

// reaches sends node i a request that changes nothing.
func (c *client) reaches(i int) error { return c.answer(i, redisscript.Inspect, []string{"x", "x"}) }
