package redis

import (
	"context"
	"net"
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
)

func TestCheckErrors(t *testing.T) {
	t.Parallel()
	peer.Refuses(t, "redis://:secret@127.0.0.1:1", driver.ErrUnavailable, "is it running")

	s := servers.NeedRedis(t, servers.RedisOptions{Password: "right"})
	peer.Refuses(t, strings.Replace(s.URL(), "right", "secret", 1), driver.ErrRefused, "wrong user name or password")
	peer.Refuses(t, strings.Replace(s.URL(), ":right@", "", 1), driver.ErrRefused, "password is needed")
	peer.Refuses(t, strings.Replace(s.URL(), "redis:", "redis+cluster:", 1), driver.ErrRefused, "not a Redis Cluster node")
	require.Error(t, peer.ErrOf(peer.Check(t, strings.Replace(s.URL(), "redis:", "rediss:", 1))))

	replica := servers.NeedReplica(t, s)
	peer.Refuses(t, replica.URL(), driver.ErrRefused, "read-only replica")
	peer.Refuses(t, s.URL()+"?replicas=2", driver.ErrUnavailable, "too few replicas are connected (1 of 2)")

	cluster, _ := newCluster(t)
	peer.Refuses(t, cluster.Nodes[0].URL(), driver.ErrRefused, "use redis+cluster://")
	do(t, cluster.Nodes[2], "CONFIG", "SET", "maxmemory-policy", "volatile-lru", "maxmemory", "1gb")
	require.Contains(t, peer.Notices(t, cluster.URL()), "eviction-policy", "of one node")
	do(t, cluster.Nodes[1], "ACL", "SETUSER", "default", "-zscore")
	peer.Refuses(t, cluster.URL(), driver.ErrRefused, "ZSCORE")
	sentinel := servers.NeedRedis(t, servers.RedisOptions{Sentinel: true})
	peer.Refuses(t, strings.Replace(sentinel.URL(), "redis:", "redis+sentinel:", 1)+"?master_name=other&addr="+sentinel.Addr(), driver.ErrUnavailable, "check master_name")
	full := servers.NeedRedis(t, servers.RedisOptions{})
	do(t, full, "CONFIG", "SET", "maxmemory", "1")
	peer.Refuses(t, full.URL(), driver.ErrUnavailable, "out of memory: raise maxmemory")
	n := newNode(t, full.URL(), "a")
	peer.SaysOneLine(t, peer.Fails(t, n, n.Request(t.Name())), driver.ErrUnavailable, "out of memory")
}

func TestCheckTLS(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{TLS: true})
	peer.Refuses(t, s.URL(), driver.ErrRefused, "TLS")
	require.Equal(t, []string{"persistence"}, peer.Notices(t, s.URL()+"?skip_verify=true"))
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
		require.Equal(t, v.want, peer.Notices(t, s.URL()), "%+v", v)
		require.Equal(t, int64(0), do(t, s, "DBSIZE"), "Check leaves nothing")
	}
	locked := servers.NeedRedis(t, servers.RedisOptions{Config: synced, Password: "right"})
	slots := []goredis.ClusterSlot{{End: 16383, Nodes: []goredis.ClusterNode{{Addr: "192.0.2.1:1"}}}}
	far := goredis.NewClusterClient(&goredis.ClusterOptions{
		Password: "right", ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) { return slots, nil },
		Dialer: func(context.Context, string, string) (net.Conn, error) { return net.Dial("tcp", locked.Addr()) },
	})
	t.Cleanup(func() { _ = far.Close() })
	require.Equal(t, []string{"password-in-the-clear"}, peer.IDs(peer.Must(nodeOn(t, far, "a", Options{}).Check(t.Context()))(t)))
	master := servers.NeedRedis(t, servers.RedisOptions{Config: synced})
	servers.NeedReplica(t, master)
	require.Equal(t, []string{"replication", "min-replicas"}, peer.Notices(t, master.URL()))
	require.Empty(t, peer.Notices(t, master.URL()+"?replicas=1"))
	do(t, master, "CONFIG", "SET", "min-replicas-to-write", 1)
	require.Equal(t, []string{"replication"}, peer.Notices(t, master.URL()))
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
		require.Equal(t, v.want, peer.Notices(t, s.URL()), v.jump)
	}
}

func TestCheckOfRestrictedUsers(t *testing.T) {
	t.Parallel()
	page := peer.Must(os.ReadFile("../../docs/backends/redis.md"))(t)
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
		"nosource on >secret ~* &* +@all -eval",
		"nowait on >secret ~* &* +@all -info -wait",
	}})
	for user, want := range map[string][]string{
		"lockport": {"persistence"},
		"noinfo":   {"info?"},
		"silent":   {"persistence", "publish"},
	} {
		require.Equal(t, want, peer.Notices(t, s.UserURL(user, "secret")), user)
	}
	for user, what := range map[string]string{"nokeys": "ACL is too narrow", "noset": "ACL is too narrow", "noeval": "evalsha"} {
		peer.Refuses(t, s.UserURL(user, "secret"), driver.ErrRefused, what)
		n := newNode(t, s.UserURL(user, "secret"), "a")
		peer.SaysOneLine(t, peer.Fails(t, n, n.Request(t.Name())), driver.ErrRefused, "")
	}
	peer.Refuses(t, s.UserURL("nosource", "secret"), driver.ErrRefused, "'eval'") // though the server knows the script by now
	peer.Refuses(t, s.UserURL("nowait", "secret")+"?replicas=1", driver.ErrRefused, "WAIT: NOPERM")
	of := func(user, name string) *node { return newNode(t, s.UserURL(user, "secret"), name) }

	// Users who may not publish can still lock; waiters poll every 250 ms, also those who may subscribe.
	for _, user := range []string{"silent", "mute"} {
		a, b := of(user, "a"), of(user, "b")
		lease, waiting := a.Takes(a.Request(user)), b.Request(user)
		defer b.Notify(waiting, func() {})()
		time.Sleep(500 * time.Millisecond) // it may have subscribed by now
		require.Equal(t, 250*time.Millisecond, b.Waits(waiting).Poll)
		a.Frees(lease)
		b.Frees(b.Takes(waiting))
	}

	// The page's ACL suffices for everything.
	a, b := of("lockport", "a"), of("lockport", "b")
	for _, as := range []func(*node, string) driver.Request{(*node).Request, (*node).reading, (*node).permit} {
		held, req := a.Request(t.Name()), as(b, t.Name())
		if req.Permits > 0 {
			held = a.permit(t.Name())
			defer a.Frees(a.Takes(a.permit(t.Name())))
		}
		lease, lost := a.Takes(held), make(chan error, 10)
		req.Lost = func(err error) { lost <- err }
		b.Waits(req)
		woken := b.Notified(req)
		peer.Extends(t, a, lease)
		a.Frees(lease)
		peer.Eventually(t, woken)
		b.Takes(req)
		require.Len(t, peer.Lists(t, a, t.Name()), 1)
		require.NoError(t, a.Break(t.Context(), t.Name(), req.Owner))
		require.Eventually(t, func() bool { return len(lost) == 1 }, soon, time.Millisecond, "a broken holder is told at once")
		require.ErrorContains(t, <-lost, "force")
		b.Abandons(b.Request(t.Name()))
	}
	_, released, err := a.Requeue(t.Context(), a.Takes(a.Request(t.Name())), a.Request(t.Name()))
	require.NoError(t, released)
	require.NoError(t, err)
}

// A Ring sends each request to one of its servers by its first key alone, as Envoy's proxy does.
func TestCheckRefusesAProxyThatDistributesKeys(t *testing.T) {
	t.Parallel()
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{
		"a": servers.SharedRedis(t).Addr(), "b": servers.NeedRedis(t, servers.RedisOptions{}).Addr(),
	}})
	t.Cleanup(func() { _ = ring.Close() })
	_, err := nodeOn(t, struct{ goredis.UniversalClient }{ring}, "a", Options{}).Check(t.Context())
	peer.SaysOneLine(t, err, driver.ErrRefused, "distributes keys")
}
