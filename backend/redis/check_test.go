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

// refuses requires that Check of rawURL fails with class and text.
func refuses(t *testing.T, rawURL string, class error, text string) {
	t.Helper()
	_, err := peer.Check(t, rawURL)
	peer.SaysOneLine(t, err, class, text)
}

// notices returns the IDs of Check's notices.
func notices(t *testing.T, rawURL string) []string {
	t.Helper()
	found, err := peer.Check(t, rawURL)
	require.NoError(t, err)
	return peer.IDs(found)
}

func TestCheckErrors(t *testing.T) {
	t.Parallel()
	refuses(t, "redis://:secret@127.0.0.1:1", driver.ErrUnavailable, "is it running")

	s := servers.NeedRedis(t, servers.RedisOptions{Password: "right"})
	refuses(t, strings.Replace(s.URL(), "right", "secret", 1), driver.ErrRefused, "wrong user name or password")
	refuses(t, strings.Replace(s.URL(), ":right@", "", 1), driver.ErrRefused, "password is needed")
	refuses(t, strings.Replace(s.URL(), "redis:", "redis+cluster:", 1), driver.ErrRefused, "not a Redis Cluster node")
	_, err := peer.Check(t, strings.Replace(s.URL(), "redis:", "rediss:", 1))
	require.Error(t, err)

	replica := servers.NeedReplica(t, s)
	refuses(t, replica.URL(), driver.ErrRefused, "read-only replica")
	refuses(t, s.URL()+"?replicas=2", driver.ErrUnavailable, "acknowledged by 2 replicas, but only 1 are connected")

	cluster, _ := newCluster(t)
	refuses(t, cluster.Nodes[0].URL(), driver.ErrRefused, "use redis+cluster://")

	full := servers.NeedRedis(t, servers.RedisOptions{})
	do(t, full, "CONFIG", "SET", "maxmemory", "1")
	refuses(t, full.URL(), driver.ErrUnavailable, "out of memory: raise maxmemory")
	n := newNode(t, full.URL(), "a", Options{})
	_, err = n.Try(n.Request(t.Name()))
	peer.SaysOneLine(t, err, driver.ErrUnavailable, "out of memory")
}

func TestCheckTLS(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{TLS: true})
	refuses(t, s.URL(), driver.ErrRefused, "TLS")
	require.Equal(t, []string{"persistence"}, notices(t, s.URL()+"?skip_verify=true"))
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
		require.Equal(t, v.want, notices(t, s.URL()), "%+v", v)
		require.Equal(t, int64(0), do(t, s, "DBSIZE"), "Check leaves nothing")
	}
	master := servers.NeedRedis(t, servers.RedisOptions{Config: synced})
	servers.NeedReplica(t, master)
	require.Equal(t, []string{"replication", "min-replicas"}, notices(t, master.URL()))
	do(t, master, "CONFIG", "SET", "min-replicas-to-write", 1)
	require.Empty(t, notices(t, master.URL()+"?replicas=1"))
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
		require.Equal(t, v.want, notices(t, s.URL()), v.jump)
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
		"mute on >secret ~* &* +@all -config -publish",
		"noset on >secret ~* &* +@all -set",
		"noeval on >secret ~* &* +@all -evalsha",
	}})
	for user, want := range map[string][]string{
		"lockport": {"persistence"},
		"noinfo":   {"info?"},
		"silent":   {"persistence", "publish"},
	} {
		require.Equal(t, want, notices(t, s.UserURL(user, "secret")), user)
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

	// Who may only subscribe is not woken by others of the same user.
	u = s.UserURL("mute", "secret")
	a, b = newNode(t, u, "a", Options{}), newNode(t, u, "b", Options{})
	lease, waiting = a.Takes(a.Request("mute"+t.Name())), b.Request("mute"+t.Name())
	defer b.Notify(waiting, func() {})()
	time.Sleep(500 * time.Millisecond) // it may have subscribed by now
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
