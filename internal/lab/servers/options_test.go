package servers

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestRedisUsers(t *testing.T) {
	t.Parallel()
	const password = `p@ss "wörd" \`
	r := NeedRedis(t, RedisOptions{
		Password: password, MaxMemory: "100mb", MaxMemoryPolicy: "volatile-lru", Config: []string{"databases 3"},
		Users: []string{"default off", "alice on >secret ~a:* resetchannels +@all"},
	})
	require.Equal(t, "OK", do(t, r, "SET", "b:1", "v"), "Do is not bound by the rules")
	require.Equal(t, []any{"maxmemory-policy", "volatile-lru"}, do(t, r, "CONFIG", "GET", "maxmemory-policy"))
	require.Equal(t, []any{"maxmemory", "104857600"}, do(t, r, "CONFIG", "GET", "maxmemory"))
	require.Equal(t, []any{"databases", "3"}, do(t, r, "CONFIG", "GET", "databases"))
	require.Equal(t, "redis://:p%40ss%20%22w%C3%B6rd%22%20%5C@"+r.Addr(), r.URL())
	require.Equal(t, "redis://alice:secret@"+r.Addr(), r.UserURL("alice", "secret"))
	for who, want := range map[string]string{r.UserURL("alice", "secret"): "NOPERM", r.URL(): "WRONGPASS", "redis://" + r.Addr(): "NOAUTH"} {
		options, err := goredis.ParseURL(who)
		require.NoError(t, err)
		client := goredis.NewClient(options)
		require.ErrorContains(t, client.Set(t.Context(), "b:1", "v", 0).Err(), want)
		require.NoError(t, client.Close())
	}
}

// TestRedisClock: the clock is the machine's, which outlives the process.
func TestRedisClock(t *testing.T) {
	t.Parallel()
	if err := ClockInstalled(); !errors.Is(err, errors.ErrUnsupported) {
		NeedInstalled(t, err)
	} else {
		t.Skip(err)
	}
	r := NeedRedis(t, RedisOptions{Clock: true})
	requireNotRoot(t, r.server)
	ahead := func(want time.Duration) {
		t.Helper()
		lua := "return tonumber(redis.call('TIME')[1])" // scripts see it too
		got := time.Until(time.Unix(do(t, r, "EVAL", lua, 0).(int64), 0))
		require.InDelta(t, want, got, float64(10*time.Second))
	}
	const jump = time.Hour
	ahead(0)
	do(t, r, "SET", "short", "v", "PX", jump.Milliseconds()/2)
	do(t, r, "SET", "long", "v", "PX", 2*jump.Milliseconds())
	require.NoError(t, r.JumpClock(jump))
	require.Nil(t, do(t, r, "GET", "short"), "it expires at once")
	require.Equal(t, "v", do(t, r, "GET", "long"))
	ahead(jump)
	require.NoError(t, r.Restart(t.Context()))
	ahead(jump)
	do(t, r, "SET", "k", "v", "PX", time.Minute.Milliseconds())
	require.NoError(t, r.JumpClock(-3*jump))
	ahead(-2 * jump)
	require.Greater(t, do(t, r, "PTTL", "k"), 3*jump.Milliseconds(), "set back, a key lives longer")
	require.NoError(t, r.Kill())
	require.NoError(t, r.WipeData())
	require.NoError(t, r.Restart(t.Context()))
	ahead(-2 * jump) // what is lost is the data: tokens that rise by the clock still do
	require.Error(t, SharedRedis(t).JumpClock(time.Second))
}

// What etcd would read from our variables does not count: see TestMain.
func TestEtcdOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]EtcdOptions{"installed": {}, "current": {Current: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.TLS, o.RootPassword, o.Tick, o.Flags = true, `p@ss "wörd" \`, 100*time.Millisecond, []string{"--max-txn-ops=1"}
			e := NeedEtcd(t, o)
			require.Equal(t, "etcds://root:p%40ss%20%22w%C3%B6rd%22%20%5C@"+e.Addr(), e.URL())
			require.NoError(t, e.Restart(t.Context()))
			require.NoError(t, o.use(t.Context(), e.Addr(), func(c *clientv3.Client) error {
				status, err := c.Status(t.Context(), e.Addr())
				require.NoError(t, err)
				require.Equal(t, o.Current, strings.HasPrefix(status.Version, "3.7."))
				requireShortestLease(t, c, 2)
				_, err = c.Txn(t.Context()).Then(clientv3.OpGet("k"), clientv3.OpGet("k")).Commit()
				require.ErrorContains(t, err, "too many operations")
				return nil
			}))
			for _, wrong := range []string{"", "secret"} {
				e.options.RootPassword = wrong
				err := put(t.Context(), e, "w")
				require.ErrorContains(t, err, "etcdserver: ")
				require.NotContains(t, err.Error(), "secret")
			}
		})
	}
	plain := SharedEtcd(t)
	require.NoError(t, plain.options.use(t.Context(), plain.Addr(), func(c *clientv3.Client) error { requireShortestLease(t, c, 1); return nil }))
}

// requireShortestLease asks for a lease that is too short, and gets the shortest there is.
func requireShortestLease(t *testing.T, c *clientv3.Client, want int64) {
	t.Helper()
	lease, err := c.Grant(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, want, lease.TTL)
}

func TestZooKeeperOptions(t *testing.T) {
	t.Parallel()
	z := NeedZooKeeper(t, ZooKeeperOptions{
		TickTime: 50 * time.Millisecond,
		Config:   []string{"maxClientCnxns=7", "digest.enabled=false"},
		JVM:      []string{"-Dznode.container.checkIntervalMs=20"},
	})
	conf, err := z.FourLetter(t.Context(), "conf")
	require.NoError(t, err)
	for _, line := range []string{"tickTime=50\n", "minSessionTimeout=100\n", "maxSessionTimeout=60000\n", "maxClientCnxns=7\n"} {
		require.Contains(t, conf, line)
	}
	conn := zkConnect(t, z.Addr())
	_, err = conn.CreateContainer("/container", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	create(t, conn, "/container/child", 0)
	require.NoError(t, conn.Delete("/container/child", -1))
	_, err = conn.CreateTTL("/brief", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), time.Millisecond)
	require.NoError(t, err)
	for _, path := range []string{"/container", "/brief"} {
		eventually(t, func() bool { return !exists(t, conn, path) }, path+" is gone")
	}

	require.NoError(t, z.Freeze())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = z.FourLetter(ctx, "ruok")
	require.ErrorIs(t, err, context.Canceled)
	_, err = z.FourLetter(t.Context(), "ruok")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestPostgresRoles(t *testing.T) {
	t.Parallel()
	p := NeedPostgres(t, PostgresOptions{Settings: map[string]string{"max_connections": "20", "cluster_name": "it's"}})
	conn, admin := pgConnect(t, p.URL()), pgConnect(t, p.AdminURL())
	require.Equal(t, "lockport lockport 20 it's",
		pgValue[string](t, conn, "SELECT concat_ws(' ', current_user, current_database(), current_setting('max_connections'), current_setting('cluster_name'))"))
	const super = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
	require.Equal(t, []bool{false, true}, []bool{pgValue[bool](t, conn, super), pgValue[bool](t, admin, super)})
}

func TestMariaDBUsers(t *testing.T) {
	t.Parallel()
	m := NeedMariaDB(t, MariaDBOptions{Settings: map[string]string{"wait_timeout": "601", "max-connections": "77"}})
	db := openSQL(t, "mysql", m.DSN())
	require.Equal(t, "lockport@% 601 77 2", ask(t, db, "SELECT CONCAT_WS(' ', CURRENT_USER(), @@wait_timeout, @@max_connections, @@innodb_flush_log_at_trx_commit)"))
	_, err := db.ExecContext(t.Context(), "CREATE DATABASE other")
	require.Error(t, err, "the user has its database alone")
	_, err = openSQL(t, "mysql", m.AdminDSN()).ExecContext(t.Context(), "CREATE DATABASE other")
	require.NoError(t, err)
}

func ask(t *testing.T, db *sql.DB, query string) (answer string) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&answer))
	return answer
}
