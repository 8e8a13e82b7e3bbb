package redlock

import (
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func urlOf(addrs ...string) string { return "redlock://" + strings.Join(addrs, ",") }

func TestCheckErrors(t *testing.T) {
	x := plainNodes(t, 3)
	peer.Refuses(t, "redlock://:secret@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", driver.ErrUnavailable, "3 of 3 nodes do not serve, and 2 are needed: 127.0.0.1:1: cannot be reached (connect: connection refused); 127.0.0.1:2: cannot")
	addrs := []string{x.servers[0].Addr(), x.servers[1].Addr()}
	for third, what := range map[string]string{
		x.proxies[0].Addr():                                            "are one server, which would have two votes",
		servers.NeedReplica(t, x.servers[0]).Addr():                    "read-only replica of",
		servers.NeedCluster(t, servers.RedisOptions{}).Nodes[0].Addr(): "a Redis Cluster node",
	} {
		peer.Refuses(t, urlOf(append(addrs, third)...), driver.ErrRefused, what)
	}

	locked := newNodes(t, 3, servers.RedisOptions{Password: "right"})
	withSecret := strings.Replace(locked.url(), "redlock://", "redlock://:secret@", 1)
	for rawURL, what := range map[string]string{withSecret: "wrong user name or password", locked.url(): "password is needed"} {
		peer.Refuses(t, rawURL, driver.ErrRefused, what)
		p := newClient(t, rawURL, "a")
		peer.SaysOneLine(t, peer.Fails(t, p, p.Request("x")), driver.ErrRefused, what)
	}
	right := strings.Replace(locked.url(), "redlock://", "redlock://:right@", 1)
	p := newClient(t, right, "a")
	p.Frees(p.Takes(p.Request("x")))
	_, err := peer.Check(t, strings.Replace(right, "redlock:", "redlocks:", 1))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "right@")

	x.each(t, false, does("ACL", "SETUSER", "default", "resetkeys", "~lockport:team:*"), 0, 1, 2)
	require.NoError(t, peer.ErrOf(newClient(t, x.url(), "a").List(t.Context(), "")), "the user may use no key of such a name, and there is none")
}

func TestCheckNotices(t *testing.T) {
	t.Parallel()
	well := newNodes(t, 3, servers.RedisOptions{Config: []string{"appendonly yes", "appendfsync always"}})
	require.Empty(t, peer.Notices(t, well.url()))
	for i, s := range well.servers {
		require.Equal(t, int64(0), do(t, s, "DBSIZE"), "Check leaves nothing on node %d", i)
	}
	servers.NeedReplica(t, well.servers[0])
	evicting := servers.NeedRedis(t, servers.RedisOptions{Config: []string{"maxmemory 1gb", "maxmemory-policy allkeys-lru"}})
	notices := peer.Must(peer.Check(t, urlOf(well.servers[0].Addr(), well.servers[1].Addr(), evicting.Addr())))(t)
	require.ElementsMatch(t, []string{"replication", "eviction-policy", "persistence"}, peer.IDs(notices))
	for _, n := range notices {
		require.Contains(t, n.Text, "127.0.0.1:", "which node")
	}
	lazy := servers.NeedRedis(t, servers.RedisOptions{Config: []string{"appendonly yes", "appendfsync everysec"}})
	for _, v := range []struct{ may, want string }{{"+config", "persistence"}, {"-config", "persistence?"}, {"-info", "info?"}} {
		do(t, lazy, "ACL", "SETUSER", "default", v.may)
		require.Equal(t, []string{v.want}, peer.Notices(t, urlOf(well.servers[1].Addr(), well.servers[2].Addr(), lazy.Addr())))
	}
	notices = peer.Must(peer.Check(t, urlOf(well.servers[1].Addr(), well.servers[2].Addr(), "127.0.0.1:1")))(t)
	require.Equal(t, []string{"nodes-away"}, peer.IDs(notices))
	require.NotContains(t, notices[0].Text, "[")
}

func TestURLs(t *testing.T) {
	t.Parallel()
	x := newClient(t, "redlocks://user:secret@h1,h2:7000/3?addr=[::1]:7001&prefix=app:&node_timeout=50ms&read_timeout=2s&ttl=3s", "a")
	require.Equal(t, "app:x", x.layout.Key("x"))
	require.Equal(t, 100*time.Millisecond, x.Capabilities().MinTTL)
	for i, addr := range []string{"h1:6379", "h2:7000", "[::1]:7001"} {
		o := x.nodes[i].pipe.Client.(*goredis.Client).Options()
		require.Equal(t, []any{addr, 3, "user", "secret", 2 * time.Second, true, true, "disabled"}, []any{o.Addr, o.DB, o.Username, o.Password, o.ReadTimeout, o.ContextTimeoutEnabled, o.DisableIdentity, string(o.MaintNotificationsConfig.Mode)})
		require.Empty(t, o.TLSConfig.ServerName, "the certificate must be for the node's host")
	}
	found, errs := []*nodeCheck{{}, {}, {}}, make([]error, 3)
	require.Empty(t, peer.Must(x.judge(found, errs))(t))
	require.Equal(t, []string{"password-in-the-clear"}, peer.IDs(peer.Must(newClient(t, "redlock://:secret@h1,h2,h3", "a").judge(found, errs))(t)))
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	peer.BadURLs(t, map[string]string{
		"redlock://u:secret@h1":                          "at least 3 independent nodes are needed, not 1",
		"redlock://u:secret@h1,h2,h1:6379":               "h1:6379 is given twice",
		"redlock://u:secret@h1,h2?addr=h1:6379":          "h1:6379 is given twice",
		"redlock://u:secret@h1:63x9,h2,h3:6379":          "bad address",
		"redlock://u:secret@h1,h2?addr=h3^":              "bad address",
		"redlock://u:secret@h1,h2,h3?pool_size=-1":       "pool_size",
		"redlock://u:secret@h1,h2,h3?pool=1":             "unexpected option: pool",
		"redlock://u:secret@h1,h2,h3?read_timeout=x":     "read_timeout",
		"redlock://u:secret@h1,h2,h3?prefix={x}":         "braces",
		"redlock://u:secret@h1,h2,h3?node_timeout=1us":   "at least 1ms",
		"redlock://u:secret@h1,h2,h3/a/b":                "path",
		"redlocks://u:secret@h1,h2,h3?node_timeout=soon": "node_timeout",
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	client := func(addr string) goredis.UniversalClient { return goredis.NewClient(&goredis.Options{Addr: addr}) } // it never connects
	a, b, c := client("a:1"), client("b:1"), client("c:1")
	found := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"s:1"}})
	cluster := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"d:1"}})
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"shard": "d:1"}})
	defer func() { _ = ring.Close() }()
	for _, v := range []struct {
		nodes []goredis.UniversalClient
		o     Options
		what  string
	}{
		{nil, Options{}, "not 0"},
		{make([]goredis.UniversalClient, 33), Options{}, "at most 31"},
		{[]goredis.UniversalClient{a, b, c, client("d:1")}, Options{}, "must be odd"},
		{[]goredis.UniversalClient{a, b, nil}, Options{}, "node 3 is nil"},
		{[]goredis.UniversalClient{a, b, (*goredis.Client)(nil)}, Options{}, "node 3 is nil"},
		{[]goredis.UniversalClient{a, b, (*goredis.ClusterClient)(nil)}, Options{}, "node 3 is nil"},
		{[]goredis.UniversalClient{a, b, found}, Options{}, "node 3 is for several servers"},
		{[]goredis.UniversalClient{a, b, cluster}, Options{}, "node 3 is for several servers"},
		{[]goredis.UniversalClient{a, b, ring}, Options{}, "node 3 is for several servers"},
		{[]goredis.UniversalClient{a, b, c}, Options{Prefix: "x", NoPrefix: true}, "exclude each other"},
		{[]goredis.UniversalClient{a, b, c}, Options{NodeTimeout: -1}, "NodeTimeout"},
	} {
		require.ErrorContains(t, peer.ErrOf(New(v.nodes, v.o)), v.what)
	}
	p := clientOf(t, peer.Must(NewBackend([]goredis.UniversalClient{a, b, c}, Options{NodeTimeout: time.Second}))(t), "a")
	req := p.Request("x")
	req.TTL = 1900 * time.Millisecond
	require.ErrorContains(t, peer.Fails(t, p, req, driver.ErrRefused), "TTL 1.9s is too small", "a TTL must leave time for a slow node")
}
