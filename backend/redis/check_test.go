package redis

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisclaims"
)

func TestCheckErrors(t *testing.T) {
	t.Parallel()
	_, err := peer.Check(t, "redis://:secret@127.0.0.1:1")
	peer.SaysOneLine(t, err, driver.ErrUnavailable, "is it running")

	s := servers.NeedRedis(t, servers.RedisOptions{Password: "right"})
	_, err = peer.Check(t, strings.Replace(s.URL(), "right", "secret", 1))
	peer.SaysOneLine(t, err, driver.ErrRefused, "wrong user name or password")
	_, err = peer.Check(t, strings.Replace(s.URL(), ":right@", "", 1))
	peer.SaysOneLine(t, err, driver.ErrRefused, "password is needed")
	_, err = peer.Check(t, strings.Replace(s.URL(), "redis:", "redis+cluster:", 1))
	peer.SaysOneLine(t, err, driver.ErrRefused, "not a Redis Cluster node")
	_, err = peer.Check(t, strings.Replace(s.URL(), "redis:", "rediss:", 1))
	require.Error(t, err)

	replica := servers.NeedReplica(t, s)
	_, err = peer.Check(t, replica.URL())
	peer.SaysOneLine(t, err, driver.ErrRefused, "read-only replica")
	_, err = peer.Check(t, s.URL()+"?replicas=2")
	peer.SaysOneLine(t, err, driver.ErrUnavailable, "acknowledged by 2 replicas, but only 1 are connected")

	cluster, _ := newCluster(t)
	_, err = peer.Check(t, cluster.Nodes[0].URL())
	peer.SaysOneLine(t, err, driver.ErrRefused, "use redis+cluster://")

	full := servers.NeedRedis(t, servers.RedisOptions{})
	do(t, full, "CONFIG", "SET", "maxmemory", "1")
	_, err = peer.Check(t, full.URL())
	peer.SaysOneLine(t, err, driver.ErrUnavailable, "out of memory: raise maxmemory")
	n := newNode(t, full.URL(), "a", Options{})
	_, err = n.Try(n.Request(t.Name()))
	peer.SaysOneLine(t, err, driver.ErrUnavailable, "out of memory")
}

func TestCheckTLS(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{TLS: true})
	_, err := peer.Check(t, s.URL())
	peer.SaysOneLine(t, err, driver.ErrRefused, "TLS")
	notices, err := peer.Check(t, s.URL()+"?skip_verify=true")
	require.NoError(t, err)
	require.Equal(t, []string{"persistence"}, peer.IDs(notices))
	n := nodeOn(t, newClient(t, s.URL(), func(o *goredis.Options) { o.TLSConfig = s.TLSConfig() }), "tls", Options{})
	n.Frees(n.Takes(n.Request(t.Name())))
}

// synced makes a server sync every change to disk.
var synced = []string{"appendonly yes", "appendfsync always"}

func TestCheckNotices(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		o    servers.RedisOptions
		set  []any
		want []string
	}{
		{servers.RedisOptions{Config: synced}, []any{"maxmemory-policy", "allkeys-lfu"}, nil}, // without a limit nothing is evicted
		{servers.RedisOptions{Config: synced}, []any{"maxmemory-policy", "volatile-lru", "maxmemory", "1gb"}, []string{"eviction-policy"}},
		{servers.RedisOptions{Config: synced}, []any{"maxmemory", "1gb"}, nil},
		{servers.RedisOptions{}, []any{"save", "3600 1"}, []string{"persistence"}},
		{servers.RedisOptions{Config: []string{`rename-command INFO ""`}}, []any{"save", ""}, []string{"info?"}}, // as managed services do
	} {
		s := servers.NeedRedis(t, v.o)
		do(t, s, append([]any{"CONFIG", "SET"}, v.set...)...)
		notices, err := peer.Check(t, s.URL())
		require.NoError(t, err)
		require.Equal(t, v.want, peer.IDs(notices), "%+v", v)
		require.Equal(t, int64(0), do(t, s, "DBSIZE"), "Check leaves nothing")
	}
	master := servers.NeedRedis(t, servers.RedisOptions{Config: synced})
	servers.NeedReplica(t, master)
	notices, err := peer.Check(t, master.URL())
	require.NoError(t, err)
	require.Equal(t, []string{"replication", "min-replicas"}, peer.IDs(notices))
	do(t, master, "CONFIG", "SET", "min-replicas-to-write", 1)
	notices, err = peer.Check(t, master.URL()+"?replicas=1")
	require.NoError(t, err)
	require.Empty(t, notices)
}

func TestCheckClock(t *testing.T) {
	t.Parallel()
	servers.NeedInstalled(t, servers.ClockInstalled())
	s := servers.NeedRedis(t, servers.RedisOptions{Config: synced, Clock: true})
	for _, v := range []struct {
		jump time.Duration
		want []string
	}{{0, nil}, {time.Minute, []string{"clock-offset"}}, {-2 * time.Minute, []string{"clock-offset"}}} {
		require.NoError(t, s.JumpClock(v.jump))
		notices, err := peer.Check(t, s.URL())
		require.NoError(t, err)
		require.Equal(t, v.want, peer.IDs(notices), v.jump)
	}
}

func TestCheckOfRestrictedUsers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/backends/redis.md")
	require.NoError(t, err)
	acl := regexp.MustCompile(`(?m)^ACL SETUSER lockport (.*)$`).FindSubmatch(page)
	require.NotNil(t, acl, "the page has a sufficient ACL")
	s := servers.NeedRedis(t, servers.RedisOptions{Users: []string{
		"lockport " + strings.ReplaceAll(string(acl[1]), "PASSWORD", "secret"),
		"noinfo on >secret ~* &* +@all -config -info",
		"nokeys on >secret ~other:* &* +@all",
		"silent on >secret ~* resetchannels +@all -config",
		"noset on >secret ~* &* +@all -set",
		"noeval on >secret ~* &* +@all -evalsha",
	}})
	for user, want := range map[string][]string{
		"lockport": {"persistence"},
		"noinfo":   {"info?"},
		"silent":   {"persistence", "publish"},
	} {
		notices, err := peer.Check(t, s.UserURL(user, "secret"))
		require.NoError(t, err, user)
		require.Equal(t, want, peer.IDs(notices), user)
	}
	for user, what := range map[string]string{"nokeys": "ACL is too narrow", "noset": "SET", "noeval": "evalsha"} {
		_, err := peer.Check(t, s.UserURL(user, "secret"))
		peer.SaysOneLine(t, err, driver.ErrRefused, what)
		n := newNode(t, s.UserURL(user, "secret"), "a", Options{})
		_, err = n.Try(n.Request(t.Name()))
		peer.SaysOneLine(t, err, driver.ErrRefused, "")
	}

	// A user who may neither publish nor subscribe can still lock; waiters poll every 250 ms.
	u := s.UserURL("silent", "secret")
	a, b := newNode(t, u, "a", Options{}), newNode(t, u, "b", Options{})
	lease, waiting := a.Takes(a.Request(t.Name())), b.Request(t.Name())
	defer b.Notify(waiting, func() {})()
	require.Equal(t, redisclaims.PollUnheard, b.Waits(waiting).Poll)
	a.Frees(lease)
	b.Frees(b.Takes(waiting))

	// The page's ACL suffices for everything.
	u = s.UserURL("lockport", "secret")
	a, b = newNode(t, u, "a", Options{}), newNode(t, u, "b", Options{})
	for _, req := range []func(*node) driver.Request{
		func(n *node) driver.Request { return n.Request(t.Name()) },
		func(n *node) driver.Request { return n.reading(t.Name()) },
		func(n *node) driver.Request { return n.permit(t.Name()) },
	} {
		held, req := a.Request(t.Name()), req(b)
		if req.Permits > 0 {
			held = a.permit(t.Name())
			defer a.Frees(a.Takes(a.permit(t.Name())))
		}
		lease := a.Takes(held)
		b.Waits(req)
		woken := b.Notified(req)
		_, err := a.Renews(lease)
		require.NoError(t, err)
		a.Frees(lease)
		peer.Eventually(t, woken)
		b.Takes(req)
		found, err := a.List(t.Context(), t.Name())
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.NoError(t, a.Break(t.Context(), t.Name(), req.Owner))
		b.Abandons(b.Request(t.Name()))
	}
	_, released, err := a.Requeue(t.Context(), a.Takes(a.Request(t.Name())), a.Request(t.Name()))
	require.NoError(t, released)
	require.NoError(t, err)
}
