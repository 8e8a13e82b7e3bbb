package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
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

func TestRedisDo(t *testing.T) {
	r := SharedRedis(t)
	require.Equal(t, "OK", do(t, r, "SET", "lockport-test-do", "a\r\nb", "PX", 60000))
	require.Equal(t, "a\r\nb", do(t, r, "GET", "lockport-test-do"))
	require.Equal(t, int64(1), do(t, r, "DEL", "lockport-test-do"))
	require.Nil(t, do(t, r, "GET", "lockport-test-do"))
	require.Equal(t, []any{int64(1), "two", nil, []any{}}, do(t, r, "EVAL", "return {1, 'two', false, {}}", 0))
	_, err := r.Do(t.Context(), "NO-SUCH-COMMAND")
	require.ErrorContains(t, err, "unknown command")
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
	require.Error(t, SharedRedis(t).JumpClock(time.Second))
}

// TestEtcdSettings asks for a lease that is too short, and gets the shortest there is. What etcd would read from its variables does not count.
func TestEtcdSettings(t *testing.T) {
	t.Setenv("ETCD_NAME", "other")
	t.Setenv("ETCD_LISTEN_CLIENT_URLS", "http://127.0.0.1:1")
	for tick, shortest := range map[time.Duration]int64{0: 1, 100 * time.Millisecond: 2} {
		o := EtcdOptions{Tick: tick, Flags: []string{"--max-txn-ops=1"}}
		require.NoError(t, o.use(t.Context(), NeedEtcd(t, o).Addr(), func(c *clientv3.Client) error {
			lease, err := c.Grant(t.Context(), 1)
			require.NoError(t, err)
			require.Equal(t, shortest, lease.TTL)
			_, err = c.Txn(t.Context()).Then(clientv3.OpGet("k"), clientv3.OpGet("k")).Commit()
			require.ErrorContains(t, err, "too many operations")
			return nil
		}))
	}
}

func TestEtcdPassword(t *testing.T) {
	for name, o := range map[string]EtcdOptions{"installed": {}, "current": {Current: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.TLS, o.RootPassword = true, `p@ss "wörd" \`
			e := NeedEtcd(t, o)
			require.Equal(t, "etcds://root:p%40ss%20%22w%C3%B6rd%22%20%5C@"+e.Addr(), e.URL())
			status, err := o.status(t.Context(), e.Addr())
			require.NoError(t, err)
			require.Equal(t, o.Current, strings.HasPrefix(status.Version, "3.7."))
			require.NoError(t, e.Restart(t.Context()))
			require.NoError(t, put(t.Context(), e, "v"))
			for _, wrong := range []string{"", "secret"} {
				e.options.RootPassword = wrong
				err := put(t.Context(), e, "w")
				require.ErrorContains(t, err, "etcdserver: ")
				require.NotContains(t, err.Error(), "secret")
			}
		})
	}
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

// tlsServers start servers with TLS, and return how each is asked for anything by a client with that configuration; nil: without TLS.
var tlsServers = map[string]func(t *testing.T) (s *server, url string, ask func(ctx context.Context, c *tls.Config) error){
	"rediss": func(t *testing.T) (*server, string, func(context.Context, *tls.Config) error) {
		r := NeedRedis(t, RedisOptions{TLS: true})
		return r.server, r.URL(), func(ctx context.Context, c *tls.Config) error {
			client := goredis.NewClient(&goredis.Options{Addr: r.Addr(), TLSConfig: c, MaxRetries: -1})
			return errors.Join(client.Ping(ctx).Err(), client.Close())
		}
	},
	"etcds": func(t *testing.T) (*server, string, func(context.Context, *tls.Config) error) {
		e := NeedEtcd(t, EtcdOptions{TLS: true})
		return e.server, e.URL(), func(ctx context.Context, c *tls.Config) error {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr()}, TLS: c, Logger: zap.NewNop()})
			require.NoError(t, err)
			_, err = client.Get(ctx, "k")
			return errors.Join(err, client.Close())
		}
	},
	"postgres": func(t *testing.T) (*server, string, func(context.Context, *tls.Config) error) {
		p := NeedPostgres(t, PostgresOptions{TLS: true})
		return p.server, p.URL(), func(ctx context.Context, c *tls.Config) error {
			config, err := pgx.ParseConfig(p.URL() + "?sslmode=require")
			require.NoError(t, err)
			if c == nil {
				return errors.New("Postgres serves without TLS too")
			}
			config.TLSConfig = c.Clone()
			config.TLSConfig.ServerName = "localhost"
			conn, err := pgx.ConnectConfig(ctx, config)
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		}
	},
	"mysql": func(t *testing.T) (*server, string, func(context.Context, *tls.Config) error) {
		m := NeedMariaDB(t, MariaDBOptions{TLS: true})
		require.Contains(t, m.URL(), "/lockport?tls=true")
		require.NoError(t, openSQL(t, "mysql", m.DSN()).PingContext(t.Context()))
		return m.server, m.URL(), func(ctx context.Context, c *tls.Config) error {
			config, err := mysql.ParseDSN(m.DSN())
			require.NoError(t, err)
			config.TLSConfig, config.TLS, config.Logger = "", c, &mysql.NopLogger{}
			connector, err := mysql.NewConnector(config)
			require.NoError(t, err)
			db := sql.OpenDB(connector)
			return errors.Join(db.PingContext(ctx), db.Close())
		}
	},
}

func TestTLS(t *testing.T) {
	for scheme, start := range tlsServers {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			s, url, ask := start(t)
			require.True(t, strings.HasPrefix(url, scheme+"://"), url)
			pem, err := os.ReadFile(s.CAFile())
			require.NoError(t, err)
			roots := x509.NewCertPool()
			require.True(t, roots.AppendCertsFromPEM(pem))
			for _, trusting := range []*tls.Config{s.TLSConfig(), {RootCAs: roots}} {
				require.NoError(t, ask(t.Context(), trusting))
			}
			for _, other := range []*tls.Config{{}, nil} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second) // clientv3 goes on trying
				require.Error(t, ask(ctx, other))
				cancel()
			}
		})
	}
	require.Nil(t, SharedRedis(t).TLSConfig())
}

func TestFakeRedis(t *testing.T) {
	var addr string
	outer := t
	t.Run("while its test runs", func(t *testing.T) {
		f := NewFakeRedis(t, "5.0.14")
		addr = f.Addr()
		info, err := RedisOptions{Password: "any"}.do(t.Context(), addr, "INFO", "server")
		require.NoError(t, err)
		require.Equal(t, "5.0.14", fields(info)["redis_version"])
		_, err = RedisOptions{}.do(t.Context(), addr, "HELLO", 3)
		require.ErrorContains(t, err, "unknown command")
		idle, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		outer.Cleanup(func() { _ = idle.Close() }) // the fake ends before
	})
	_, err := net.Dial("tcp", addr)
	require.Error(t, err)
}

func TestFakeMySQL(t *testing.T) {
	f := NewFakeMySQL(t, "5.5.5-10.1.48-MariaDB")
	db := openSQL(t, "mysql", "any:thing@tcp("+f.Addr()+")/lockport")
	require.Equal(t, "5.5.5-10.1.48-MariaDB", ask(t, db, "SELECT VERSION()"))
	_, err := db.ExecContext(t.Context(), "SET SESSION wait_timeout=3")
	require.NoError(t, err)
	require.ErrorContains(t, db.QueryRowContext(t.Context(), "SELECT GET_LOCK('a',0)").Err(), "syntax")
}
