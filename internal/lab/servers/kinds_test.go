package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/internal/lab/worker"
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
	"etcd":         func(t *testing.T) store { return etcdStore(NeedEtcd(t, EtcdOptions{})) },
	"etcd, current": func(t *testing.T) store {
		return etcdStore(NeedEtcd(t, EtcdOptions{Current: true}))
	},
	"zookeeper": func(t *testing.T) store {
		z := NeedZooKeeper(t, ZooKeeperOptions{})
		return store{z.server, func(ctx context.Context, v string) error { return zkPut(ctx, z, v) },
			func(ctx context.Context) (string, error) { return zkGet(ctx, z) }}
	},
	"postgres": func(t *testing.T) store {
		p := NeedPostgres(t, PostgresOptions{Durable: true})
		return sqlStore(t, p.server, "pgx", p.URL())
	},
	"mariadb": func(t *testing.T) store {
		m := NeedMariaDB(t, MariaDBOptions{Durable: true})
		return sqlStore(t, m.server, "mysql", m.DSN())
	},
	"mysql": func(t *testing.T) store {
		m := NeedMariaDB(t, MariaDBOptions{MySQL: true})
		return sqlStore(t, m.server, "mysql", m.DSN())
	},
}

func redisStore(r *Redis) store {
	return store{r.server, func(ctx context.Context, v string) error { _, err := r.Do(ctx, "SET", "k", v); return err },
		func(ctx context.Context) (string, error) {
			reply, err := r.Do(ctx, "GET", "k")
			v, _ := reply.(string)
			return v, err
		}}
}

func etcdStore(e *Etcd) store {
	return store{e.server, func(ctx context.Context, v string) error { return put(ctx, e, v) },
		func(ctx context.Context) (string, error) { return get(ctx, e) }}
}

func sqlStore(t *testing.T, s *server, driver, dsn string) store {
	db := openSQL(t, driver, dsn)
	exec := func(ctx context.Context, query string) error { _, err := db.ExecContext(ctx, query); return err }
	const create = "CREATE TABLE IF NOT EXISTS k (v text)"
	return store{s, func(ctx context.Context, v string) error {
		return errors.Join(exec(ctx, create), exec(ctx, "INSERT INTO k VALUES ('"+v+"')"))
	}, func(ctx context.Context) (v string, err error) {
		err = exec(ctx, create)
		return v, errors.Join(err, db.QueryRowContext(ctx, "SELECT coalesce(max(v), '') FROM k").Scan(&v))
	}}
}

// put and get retry nothing: an etcd refuses while its leader changes.
func put(ctx context.Context, e *Etcd, value string) error {
	return e.options.use(ctx, e.Addr(), func(c *clientv3.Client) error { _, err := c.Put(ctx, "k", value); return err })
}

func get(ctx context.Context, e *Etcd) (value string, err error) {
	err = e.options.use(ctx, e.Addr(), func(c *clientv3.Client) error {
		reply, err := c.Get(ctx, "k")
		if err == nil && len(reply.Kvs) > 0 {
			value = string(reply.Kvs[0].Value)
		}
		return err
	})
	return value, err
}

// Every kind keeps its data, its address and its folder, however it ends, until they are wiped; frozen, it is silent; closed, it is gone.
func TestKinds(t *testing.T) {
	for kind, start := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			requireNotRoot(t, s.server)
			require.NoError(t, Poll(soon(t), func() error { return s.put(t.Context(), "v") }))
			has := func(want string) {
				t.Helper()
				var got string
				require.NoError(t, Poll(soon(t), func() (err error) { got, err = s.get(t.Context()); return err }))
				require.Equal(t, want, got)
			}
			ends := []func() error{s.Stop, s.Kill, s.Freeze}
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

			require.ErrorContains(t, s.WipeData(), "stop the ")
			require.NoError(t, s.Kill())
			require.NoError(t, s.WipeData())
			require.NoError(t, s.Restart(t.Context()))
			has("")
			require.NotEmpty(t, s.Log())

			require.NoError(t, s.Freeze())
			require.NoError(t, s.Close())
			require.NoError(t, s.Close())
			require.NoDirExists(t, s.Dir())
			_, err = net.Dial("tcp", s.Addr())
			require.Error(t, err)
			require.ErrorContains(t, s.Restart(t.Context()), "closed")
		})
	}
}

// requireNotRoot looks at the processes of a server and at their children.
func requireNotRoot(t *testing.T, s *server) {
	t.Helper()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		return // no Linux
	}
	pids := []int{s.proc.Pid()}
	for _, c := range childrenOf(pids[0]) {
		pids = append(pids, c.Pid)
	}
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if os.IsNotExist(err) && pid != pids[0] {
			continue // a child that has ended
		}
		require.NoError(t, err)
		_, ids, _ := strings.Cut(string(status), "\nUid:")
		require.NotContains(t, strings.Fields(ids)[:4], "0")
	}
}

// TestFrozenMeansSilent would see an answer that slips out between the signal and the stop.
func TestFrozenMeansSilent(t *testing.T) {
	t.Parallel()
	r := NeedRedis(t, RedisOptions{})
	for range 50 {
		require.NoError(t, r.Freeze())
		require.False(t, worker.Running(r.Pid()))
		require.NoError(t, r.Thaw())
	}
}

func TestSharedServersAreNotTheTests(t *testing.T) {
	for kind, s := range map[string]*server{
		"redis": SharedRedis(t).server, "etcd": SharedEtcd(t).server, "zookeeper": SharedZooKeeper(t).server,
		"postgres": SharedPostgres(t).server, "mariadb": SharedMariaDB(t).server,
	} {
		t.Run(kind, func(t *testing.T) {
			for _, control := range []func() error{
				s.Kill, s.Stop, s.Freeze, s.Thaw, s.WipeData, func() error { return s.Restart(t.Context()) },
			} {
				require.ErrorIs(t, control(), errors.ErrUnsupported)
			}
			require.NoError(t, s.Close())
			require.NoError(t, s.ready(t.Context(), s.Addr()))
			requireNotRoot(t, s)
		})
	}
	t.Run("again", func(t *testing.T) { require.Same(t, SharedRedis(t), SharedRedis(t)) })
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	t.Cleanup(cancel)
	return ctx
}

// eventually requires that ok soon returns true.
func eventually(t *testing.T, ok func() bool, what string) {
	t.Helper()
	require.NoError(t, Poll(soon(t), func() error {
		if !ok() {
			return errors.New("not yet: " + what)
		}
		return nil
	}))
}

func do(t *testing.T, r *Redis, args ...any) any {
	t.Helper()
	reply, err := r.Do(t.Context(), args...)
	require.NoError(t, err)
	return reply
}

func openSQL(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func pgConnect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// zkConnect is a client in a session that lives for 5 s without the server.
func zkConnect(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{addr}, 5*time.Second, zk.WithLogger(silence{}), zk.WithDialer(DialZooKeeper))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

type silence struct{}

func (silence) Printf(string, ...any) {}
