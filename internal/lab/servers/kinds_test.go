package servers

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// store is a server that keeps its data, and a value in it.
type store struct {
	*server
	put func(ctx context.Context, value string) error
	get func(ctx context.Context) (string, error) // "": there is none
}

// stores start one of each kind that keeps data.
var stores = map[string]func(t *testing.T) store{
	"redis":        func(t *testing.T) store { return redisStore(NeedRedis(t, RedisOptions{AppendOnly: true})) },
	"redis, saved": func(t *testing.T) store { return redisStore(NeedRedis(t, RedisOptions{Save: "3600 1"})) },
	"etcd": func(t *testing.T) store {
		e := NeedEtcd(t, EtcdOptions{})
		return store{e.server, func(ctx context.Context, v string) error { return putEtcd(ctx, e, "k", v) },
			func(ctx context.Context) (string, error) { return get(ctx, e, "k") }}
	},
	"zookeeper": func(t *testing.T) store {
		z := NeedZooKeeper(t, ZooKeeperOptions{})
		// A session that ended with the data is not taken up again: a connection for each call.
		with := func(ctx context.Context, f func(conn *zk.Conn) error) error {
			conn, _, err := zk.Connect([]string{z.Addr()}, 5*time.Second, zk.WithLogger(silence{}), zk.WithDialer(DialZooKeeper))
			if err != nil {
				return err
			}
			defer conn.Close()
			defer context.AfterFunc(ctx, conn.Close)()
			return f(conn)
		}
		return store{z.server, func(ctx context.Context, v string) error {
			return with(ctx, func(conn *zk.Conn) error {
				_, err := conn.Create("/k", []byte(v), 0, zk.WorldACL(zk.PermAll))
				return err
			})
		}, func(ctx context.Context) (v string, err error) {
			err = with(ctx, func(conn *zk.Conn) error {
				value, _, err := conn.Get("/k")
				if v = string(value); errors.Is(err, zk.ErrNoNode) {
					return nil
				}
				return err
			})
			return v, err
		}}
	},
	"postgres": func(t *testing.T) store {
		p := NeedPostgres(t, PostgresOptions{Durable: true})
		with := func(ctx context.Context, f func(conn *pgx.Conn) error) error {
			conn, err := pgx.Connect(ctx, p.URL())
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close(context.Background()) }()
			return f(conn)
		}
		return store{p.server, func(ctx context.Context, v string) error {
			return with(ctx, func(conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "CREATE TABLE k AS SELECT '"+v+"' AS v")
				return err
			})
		}, func(ctx context.Context) (v string, err error) {
			return v, with(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, "SELECT v FROM k").Scan(&v) })
		}}
	},
	"mariadb": func(t *testing.T) store { return sqlStore(NeedMariaDB(t, MariaDBOptions{Durable: true})) },
	"mysql":   func(t *testing.T) store { return sqlStore(NeedMariaDB(t, MariaDBOptions{MySQL: true})) },
}

func redisStore(r *Redis) store {
	return store{r.server, func(ctx context.Context, v string) error { _, err := r.Do(ctx, "SET", "k", v); return err },
		func(ctx context.Context) (string, error) {
			reply, err := r.Do(ctx, "GET", "k")
			v, _ := reply.(string)
			return v, err
		}}
}

func sqlStore(m *MariaDB) store {
	with := func(f func(db *sql.DB) error) error {
		db, err := sql.Open("mysql", m.DSN())
		if err == nil {
			err = errors.Join(f(db), db.Close())
		}
		return err
	}
	return store{m.server, func(ctx context.Context, v string) error {
		return with(func(db *sql.DB) error {
			_, err := db.ExecContext(ctx, "CREATE TABLE k AS SELECT '"+v+"' AS v")
			return err
		})
	}, func(ctx context.Context) (v string, err error) {
		return v, with(func(db *sql.DB) error { return db.QueryRowContext(ctx, "SELECT v FROM k").Scan(&v) })
	}}
}

// Every kind keeps its data, its address and its folder, however it ends, until they are wiped; frozen, it is silent.
func TestServersKeepTheirData(t *testing.T) {
	for kind, start := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			require.NoError(t, poll(soon(t), func() error { return s.put(t.Context(), "v") }))
			has := func(want string) {
				t.Helper()
				var got string
				require.NoError(t, poll(soon(t), func() (err error) { got, err = s.get(t.Context()); return err }))
				require.Equal(t, want, got)
			}
			ends := []func() error{s.Stop, s.Kill, s.Freeze, func() error { return nil }}
			if kind == "redis, saved" {
				ends = []func() error{s.Stop}
			}
			for _, end := range ends {
				addr, dir, pid := s.Addr(), s.Dir(), s.Pid()
				require.NoError(t, end())
				require.NoError(t, s.Restart(t.Context()))
				require.Equal(t, []string{addr, dir}, []string{s.Addr(), s.Dir()})
				require.NotEqual(t, pid, s.Pid())
				has("v")
			}
			require.NoError(t, s.Freeze())
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := s.get(ctx)
			require.Error(t, err)
			require.NoError(t, s.Thaw())
			has("v")
			if len(s.data) > 0 {
				require.ErrorContains(t, s.WipeData(), "stop the ")
				require.NoError(t, s.Stop())
				require.NoError(t, s.WipeData())
				require.NoError(t, s.Restart(t.Context()))
				has("")
			}
			require.NotEmpty(t, s.Log())
			require.NoError(t, s.Freeze())
			require.NoError(t, s.Close())
			require.NoError(t, s.Close())
			require.NoDirExists(t, s.Dir())
			require.False(t, s.proc.alive())
			_, err = net.Dial("tcp", s.Addr())
			require.Error(t, err)
			require.ErrorContains(t, s.Restart(t.Context()), "closed")
		})
	}
}

// What does not start leaves nothing, and its error shows the log; nor does what starts leave anything when it is closed.
func TestServersLeaveNothing(t *testing.T) {
	NeedRedis(t, RedisOptions{})
	NeedEtcd(t, EtcdOptions{Current: true})
	primary := NeedPostgres(t, PostgresOptions{})
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("changed my mind"))
	ctx := t.Context()
	redis, etcd := RedisOptions{Config: []string{"no-such-setting 1"}}, EtcdOptions{Flags: []string{"--no-such-setting"}}
	java := ZooKeeperOptions{Config: []string{"tickTime=no-such-setting"}}
	bad := map[string]string{"no-such-setting": "1"}
	long := EtcdOptions{Current: true, RootPassword: strings.Repeat("secret", 20)} // bcrypt takes 72 bytes
	TempDir(t)
	for _, c := range []struct {
		wants string
		start func() error
	}{
		{"changed my mind", func() error { _, err := StartRedis(cancelled, RedisOptions{}); return err }},
		{"changed my mind", func() error { _, err := StartEtcdCluster(cancelled, EtcdOptions{}); return err }},
		{"no-such-setting", func() error { _, err := StartRedis(ctx, redis); return err }},
		{"no-such-setting", func() error { _, err := StartSentinel(ctx, SentinelOptions{Redis: redis}); return err }},
		{"no-such-setting", func() error { _, err := StartCluster(ctx, redis); return err }},
		{"negative", func() error { _, err := StartSentinel(ctx, SentinelOptions{DownAfter: -time.Second}); return err }},
		{"no-such-setting", func() error { _, err := StartEtcd(ctx, etcd); return err }},
		{"no-such-setting", func() error { _, err := StartEtcdCluster(ctx, etcd); return err }},
		{"72 bytes", func() error { _, err := StartEtcd(ctx, long); return err }},
		{"no-such-setting", func() error { _, err := StartZooKeeper(ctx, java); return err }},
		{"no-such-setting", func() error { _, err := StartEnsemble(ctx, java); return err }},
		{"no-such-setting", func() error { _, err := StartPostgres(ctx, PostgresOptions{Settings: bad}); return err }},
		{"no-such-setting", func() error {
			_, err := StartPostgres(ctx, PostgresOptions{Primary: primary, Settings: bad})
			return err
		}},
		{"no-such-setting", func() error { _, err := StartMariaDB(ctx, MariaDBOptions{Settings: bad}); return err }},
	} {
		err := c.start()
		var missing *NotInstalled
		if errors.As(err, &missing) && !required(missing.Program) {
			continue
		}
		require.ErrorContains(t, err, c.wants)
		require.NotContains(t, err.Error(), "secret")
		wantEmpty(t, os.TempDir())
	}
	sound := []func() (interface{ Close() error }, error){
		func() (interface{ Close() error }, error) { return StartSentinel(ctx, SentinelOptions{}) },
		func() (interface{ Close() error }, error) { return StartEtcdCluster(ctx, EtcdOptions{}) },
	}
	for _, start := range sound {
		group, err := start()
		require.NoError(t, err)
		require.NoError(t, group.Close())
		wantEmpty(t, os.TempDir())
	}
}
