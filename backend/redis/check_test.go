package redis

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// check opens rawURL and checks it.
func check(t *testing.T, rawURL string) ([]driver.Notice, error) {
	b, err := openURL(t.Context(), rawURL)
	require.NoError(t, err)
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return b.(driver.Checker).Check(ctx)
}

// saysOneLine checks an error of Check.
func saysOneLine(t *testing.T, err, class error, what string) {
	t.Helper()
	require.ErrorIs(t, err, class)
	require.ErrorContains(t, err, what)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "secret")
}

func TestCheckErrors(t *testing.T) {
	t.Parallel()
	_, err := check(t, "redis://:secret@127.0.0.1:1")
	saysOneLine(t, err, driver.ErrUnavailable, "is it running")
	_, err = check(t, "redis://"+servers.NewFakeRedis(t, "5.0.14"))
	saysOneLine(t, err, driver.ErrRefused, "5.0.14 is too old: 6.2 or newer")

	s := servers.NeedRedis(t, servers.RedisOptions{Password: "right"})
	_, err = check(t, strings.Replace(s.URL(), "right", "secret", 1))
	saysOneLine(t, err, driver.ErrRefused, "wrong user name or password")
	_, err = check(t, strings.Replace(s.URL(), ":right@", "", 1))
	saysOneLine(t, err, driver.ErrRefused, "password is needed")
	_, err = check(t, strings.Replace(s.URL(), "redis:", "redis+cluster:", 1))
	saysOneLine(t, err, driver.ErrRefused, "no node of a Redis Cluster")
	_, err = check(t, strings.Replace(s.URL(), "redis:", "rediss:", 1))
	require.Error(t, err)

	replica := servers.NeedReplica(t, s)
	_, err = check(t, replica.URL())
	saysOneLine(t, err, driver.ErrRefused, "read-only replica")
	_, err = check(t, s.URL()+"?replicas=2")
	saysOneLine(t, err, driver.ErrUnavailable, "acknowledged by 2 replicas, and 1 are connected")

	full := servers.NeedRedis(t, servers.RedisOptions{})
	do(t, full, "CONFIG", "SET", "maxmemory", "1")
	_, err = check(t, full.URL())
	saysOneLine(t, err, driver.ErrUnavailable, "out of memory: raise maxmemory")
	n := newNode(t, full.URL(), "a", Options{})
	_, err = n.try(n.request(t.Name()))
	saysOneLine(t, err, driver.ErrUnavailable, "out of memory")
}

func TestCheckTLS(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{TLS: true})
	_, err := check(t, s.URL())
	saysOneLine(t, err, driver.ErrRefused, "TLS")
	notices, err := check(t, s.URL()+"?skip_verify=true")
	require.NoError(t, err)
	require.Equal(t, []string{"persistence"}, ids(notices))
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), TLSConfig: s.TLSConfig()})
	defer func() { _ = client.Close() }()
	n := nodeOn(t, client, "tls", Options{})
	frees(t, n.takes(n.request(t.Name())))
}

func TestCheckClusterNode(t *testing.T) {
	t.Parallel()
	c := servers.NeedCluster(t, servers.RedisOptions{})
	_, err := check(t, c.Nodes[0].URL())
	saysOneLine(t, err, driver.ErrRefused, "use redis+cluster://")
}

func TestCheckNotices(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		o    servers.RedisOptions
		want []string
	}{
		{servers.RedisOptions{AppendOnly: true}, nil},
		{servers.RedisOptions{}, []string{"persistence"}},
		{servers.RedisOptions{Save: "3600 1"}, []string{"persistence"}},
		{servers.RedisOptions{AppendOnly: true, MaxMemory: "1gb", MaxMemoryPolicy: "volatile-lru"}, []string{"eviction-policy"}},
		{servers.RedisOptions{AppendOnly: true, MaxMemory: "1gb", MaxMemoryPolicy: "allkeys-lfu"}, []string{"eviction-policy"}},
		{servers.RedisOptions{AppendOnly: true, MaxMemory: "1gb"}, nil},
		{servers.RedisOptions{AppendOnly: true, MaxMemoryPolicy: "allkeys-lfu"}, nil}, // nothing is evicted without a limit
		{servers.RedisOptions{AppendOnly: true, Config: []string{"maxclients 4"}}, []string{"connections"}},
	} {
		s := servers.NeedRedis(t, v.o)
		notices, err := check(t, s.URL())
		require.NoError(t, err)
		require.Equal(t, v.want, ids(notices), "%+v", v.o)
		for _, n := range notices {
			require.NotEmpty(t, n.Text)
			require.NotEmpty(t, n.Remedy)
		}
		require.Equal(t, int64(0), do(t, s, "DBSIZE"), "Check leaves nothing")
	}
	master := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true})
	servers.NeedReplica(t, master)
	notices, err := check(t, master.URL())
	require.NoError(t, err)
	require.Equal(t, []string{"replication", "min-replicas"}, ids(notices))
	do(t, master, "CONFIG", "SET", "min-replicas-to-write", 1)
	notices, err = check(t, master.URL()+"?replicas=1")
	require.NoError(t, err)
	require.Empty(t, notices)
}

func TestCheckClock(t *testing.T) {
	t.Parallel()
	servers.NeedInstalled(t, servers.ClockInstalled())
	s := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true, Clock: true})
	for _, v := range []struct {
		jump time.Duration
		want []string
	}{{0, nil}, {time.Minute, []string{"clock-offset"}}, {-2 * time.Minute, []string{"clock-offset"}}} {
		require.NoError(t, s.JumpClock(v.jump))
		notices, err := check(t, s.URL())
		require.NoError(t, err)
		require.Equal(t, v.want, ids(notices), v.jump)
	}
}

func TestCheckOfRestrictedUsers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/backends/redis.md")
	require.NoError(t, err)
	acl := regexp.MustCompile(`(?m)^ACL SETUSER lockport (.*)$`).FindSubmatch(page)
	require.NotNil(t, acl, "the page names an ACL that suffices")
	s := servers.NeedRedis(t, servers.RedisOptions{Users: []string{
		"lockport " + strings.ReplaceAll(string(acl[1]), "PASSWORD", "secret"),
		"noconfig on >secret ~* &* +@all -config",
		"noinfo on >secret ~* &* +@all -config -info",
		"nokeys on >secret ~other:* &* +@all",
		"noset on >secret ~* &* +@all -set",
		"noeval on >secret ~* &* +@all -evalsha",
	}})
	for user, want := range map[string][]string{
		"lockport": {"persistence?"},
		"noconfig": {"persistence?"},
		"noinfo":   {"info?"},
	} {
		notices, err := check(t, s.UserURL(user, "secret"))
		require.NoError(t, err, user)
		require.Equal(t, want, ids(notices), user)
	}
	n := newNode(t, s.UserURL("lockport", "secret"), "a", Options{})
	for _, req := range []driver.Request{n.request(t.Name()), n.reading(t.Name()), n.permit(t.Name())} {
		lease := n.takes(req)
		_, err := n.renews(lease)
		require.NoError(t, err)
		_, err = n.Inspect(t.Context(), t.Name())
		require.NoError(t, err)
		frees(t, lease)
		n.abandons(req)
	}
	for user, what := range map[string]string{"nokeys": "ACL is too narrow", "noset": "SET", "noeval": "evalsha"} {
		_, err := check(t, s.UserURL(user, "secret"))
		saysOneLine(t, err, driver.ErrRefused, what)
		n := newNode(t, s.UserURL(user, "secret"), "a", Options{})
		_, err = n.try(n.request(t.Name()))
		saysOneLine(t, err, driver.ErrRefused, "")
	}

	// What the page names suffices for everything.
	u := s.UserURL("lockport", "secret")
	a, b := newNode(t, u, "a", Options{}), newNode(t, u, "b", Options{})
	lease := a.takes(a.request(t.Name()))
	req := b.request(t.Name())
	b.waits(req)
	woken := b.notified(req)
	_, err = a.renews(lease)
	require.NoError(t, err)
	frees(t, lease)
	eventually(t, woken)
	lease = b.takes(req)
	found, err := a.List(t.Context(), t.Name())
	require.NoError(t, err)
	require.Len(t, found, 1)
	again := b.request(t.Name())
	got, released, err := b.Requeue(t.Context(), lease, again)
	require.NoError(t, released)
	require.NoError(t, err)
	require.NotNil(t, got)
	require.NoError(t, a.Break(t.Context(), t.Name(), again.Owner))
	b.abandons(b.request(t.Name()))
}
