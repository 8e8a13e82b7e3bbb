package redis

import (
	"cmp"
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
	"github.com/lockport/lockport/internal/redisscript"
)

const soon = peer.Soon

func TestMain(m *testing.M) { peer.Main(m, 0) }

// newClient makes a client with go-redis' defaults, except for what set changes.
func newClient(t testing.TB, rawURL string, set ...func(*goredis.Options)) *goredis.Client {
	o := peer.Must(goredis.ParseURL(rawURL))(t)
	for _, s := range set {
		s(o)
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// prompt makes a client honor context deadlines, like the clients that Open makes.
func prompt(o *goredis.Options) { o.ContextTimeoutEnabled = true }

func newCluster(t testing.TB) (*servers.Group[*servers.Redis], *goredis.ClusterClient) {
	c := servers.NeedCluster(t, servers.RedisOptions{})
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	return c, client
}

// node is a separate backend, equivalent to another machine.
type node struct {
	*Backend
	*peer.Peer
}

func newNode(t testing.TB, rawURL, name string) *node {
	return nodeOn(t, newClient(t, rawURL), name, Options{})
}

func nodeOn(t testing.TB, c goredis.UniversalClient, name string, o Options) *node {
	return nodeOf(t, peer.Must(NewBackend(c, o))(t), name)
}

// opened makes a node with a client of its own.
func opened(t testing.TB, rawURL string) *node {
	t.Helper()
	return nodeOf(t, peer.Opened(t, rawURL), "a")
}

// nodeOf makes a node with the backend b.
func nodeOf(t testing.TB, b driver.Backend, name string) *node {
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return &node{b.(*Backend), &peer.Peer{T: t, Of: b, Name: name, Heard: b.(*Backend).claims.Heard}}
}

// shared makes nodes on the server that tests share, for a test that runs beside others.
func shared(t *testing.T) (s *servers.Redis, a, b, c *node) {
	t.Helper()
	t.Parallel()
	s = servers.SharedRedis(t)
	return s, newNode(t, s.URL(), "a"), newNode(t, s.URL(), "b"), newNode(t, s.URL(), "c")
}

// alone is shared with a server of its own.
func alone(t *testing.T) (s *servers.Redis, a, b *node) {
	t.Helper()
	t.Parallel()
	s = servers.NeedRedis(t, servers.RedisOptions{})
	return s, newNode(t, s.URL(), "a"), newNode(t, s.URL(), "b")
}

// proxied makes a node that reaches s through a proxy and is subscribed.
func proxied(t *testing.T, s *servers.Redis, set ...func(*goredis.Options)) (*node, *faultproxy.Proxy) {
	proxy := peer.Proxy(t, s.Addr())
	n := nodeOn(t, newClient(t, s.URL(), append(set, func(o *goredis.Options) { o.Addr = proxy.Addr() })...), "proxied", Options{})
	n.Notified(n.Request("another"))
	return n, proxy
}

// reading makes a reader's request.
func (n *node) reading(name string) driver.Request { return peer.Reading(n.Request(name)) }

// permit makes a request for one of two permits.
func (n *node) permit(name string) driver.Request { return peer.Permit(n.Request(name), 2) }

// many claims that many names concurrently.
func (n *node) many(locks int) ([]driver.Lease, []driver.Renewal) {
	leases := make([]driver.Lease, locks)
	require.NoError(n.T, cmp.Or(worker.AtOnce(leases, func(i int, _ driver.Lease) (err error) {
		leases[i], err = n.Try(n.Request(fmt.Sprint(n.T.Name(), i)))
		return err
	})...))
	return leases, make([]driver.Renewal, locks)
}

func (n *node) freesAll(leases []driver.Lease) {
	require.NoError(n.T, cmp.Or(worker.AtOnce(leases, func(_ int, l driver.Lease) error { return n.Releases(l) })...))
}

// asked counts the scripts that the server has run.
func (n *node) asked(s *servers.Redis) (calls int) {
	info := peer.Must(s.Info(n.T.Context(), "commandstats"))(n.T)
	_, _ = fmt.Sscanf(info["cmdstat_evalsha"], "calls=%d,", &calls)
	return calls
}

// do runs a command without the backend.
var do = servers.Do

// key is the lock's key for name; side is one of its side keys.
func key(name string) string { return redisscript.Layout{Prefix: redisscript.DefaultPrefix}.Key(name) }

func side(name, what string) string { return redisscript.Side(key(name), what) }

func queueOf(name string) string { return side(name, redisscript.QueueKey) }

// leaves checks that Redis has nothing for name.
func leaves(t testing.TB, s *servers.Redis, name string) {
	t.Helper()
	for _, k := range []string{key(name), queueOf(name), side(name, readersKey), side(name, permitsKey), side(name, permitsQueueKey)} {
		require.Equal(t, int64(0), do(t, s, "EXISTS", k), k)
	}
}
