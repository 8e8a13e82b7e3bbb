package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/internal/lab/worker"
)

// store is a server that keeps its data, with access to one value in it.
type store struct {
	*Server
	put func(ctx context.Context, value string) error
	get func(ctx context.Context) (string, error) // "": there is none
}

// stores start one of each kind that keeps data.
var stores = map[string]func(t *testing.T) store{
	"redis": func(t *testing.T) store { return redisStore(NeedRedis(t, RedisOptions{AppendOnly: true})) },
	"redis, saved": func(t *testing.T) store {
		return redisStore(NeedRedis(t, RedisOptions{Config: []string{"save 3600 1"}}))
	},
	"etcd": func(t *testing.T) store { return etcdStore(NeedEtcd(t, EtcdOptions{})) },
	"etcd, current": func(t *testing.T) store {
		return etcdStore(NeedEtcd(t, EtcdOptions{Current: true}))
	},
	"zookeeper": func(t *testing.T) store {
		z := NeedZooKeeper(t, ZooKeeperOptions{})
		return store{z.Server, func(ctx context.Context, v string) error { return zkPut(ctx, z, v) },
			func(ctx context.Context) (string, error) { return zkGet(ctx, z) }}
	},
	"postgres": func(t *testing.T) store {
		p := NeedPostgres(t, PostgresOptions{Durable: true})
		return sqlStore(t, p.Server, "pgx", p.URL())
	},
	"mariadb": func(t *testing.T) store {
		m := NeedMariaDB(t, MariaDBOptions{Durable: true})
		return sqlStore(t, m.Server, "mysql", m.DSN())
	},
	"mysql": func(t *testing.T) store {
		m := NeedMariaDB(t, MariaDBOptions{MySQL: true})
		return sqlStore(t, m.Server, "mysql", m.DSN())
	},
}

func redisStore(r *Redis) store {
	return store{r.Server, func(ctx context.Context, v string) error { _, err := r.Do(ctx, "SET", "k", v); return err },
		func(ctx context.Context) (string, error) {
			reply, err := r.Do(ctx, "GET", "k")
			v, _ := reply.(string)
			return v, err
		}}
}

func etcdStore(e *Etcd) store {
	return store{e.Server, func(ctx context.Context, v string) error { return put(ctx, e, v) },
		func(ctx context.Context) (string, error) { return get(ctx, e) }}
}

func sqlStore(t *testing.T, s *Server, driver, dsn string) store {
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	exec := func(ctx context.Context, query string) error { _, err := db.ExecContext(ctx, query); return err }
	const create = "CREATE TABLE IF NOT EXISTS k (v text)"
	return store{s, func(ctx context.Context, v string) error {
		return errors.Join(exec(ctx, create), exec(ctx, "INSERT INTO k VALUES ('"+v+"')"))
	}, func(ctx context.Context) (v string, err error) {
		err = exec(ctx, create)
		return v, errors.Join(err, db.QueryRowContext(ctx, "SELECT coalesce(max(v), '') FROM k").Scan(&v))
	}}
}

func put(ctx context.Context, e *Etcd, value string) error {
	return e.Use(ctx, func(c *clientv3.Client) error { _, err := c.Put(ctx, "k", value); return err })
}

func get(ctx context.Context, e *Etcd) (value string, err error) {
	err = e.Use(ctx, func(c *clientv3.Client) error {
		reply, err := c.Get(ctx, "k")
		if err == nil && len(reply.Kvs) > 0 {
			value = string(reply.Kvs[0].Value)
		}
		return err
	})
	return value, err
}

// zkPut, zkGet and zkUse use new sessions: one that was lost with the data cannot be resumed.
func zkPut(ctx context.Context, z *ZooKeeper, value string) error {
	return zkUse(ctx, z, func(conn *zk.Conn) error {
		if _, err := conn.Create("/k", []byte(value), 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNodeExists) { // created by a try whose answer was lost
			return err
		}
		return nil
	})
}

func zkGet(ctx context.Context, z *ZooKeeper) (value string, err error) {
	err = zkUse(ctx, z, func(conn *zk.Conn) error {
		_, err1 := conn.Sync("/k")
		data, _, err2 := conn.Get("/k")
		if value = string(data); errors.Is(err2, zk.ErrNoNode) {
			return err1
		}
		return errors.Join(err1, err2)
	})
	return value, err
}

func zkUse(ctx context.Context, z *ZooKeeper, f func(conn *zk.Conn) error) error {
	conn, _, err := zk.Connect([]string{z.Addr()}, 5*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithDialer(DialZooKeeper))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	return f(conn)
}

// Every kind keeps its data, address and folder however it ends, until WipeData. Frozen, it is silent; closed, it is gone.
func TestKinds(t *testing.T) {
	for kind, start := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			requireNotRoot(t, s.Server)
			soon(t, func(ctx context.Context) error { return s.put(ctx, "v") })
			ends := []func() error{s.Stop, s.Kill, s.Freeze}
			if kind == "redis, saved" {
				ends = ends[:1]
			}
			for _, end := range ends {
				addr, dir, pid := s.Addr(), s.Dir(), s.Pid()
				require.NoError(t, end())
				require.NoError(t, s.Restart(t.Context()))
				require.Equal(t, []string{addr, dir}, []string{s.Addr(), s.Dir()})
				require.NotEqual(t, pid, s.Pid())
				has(t, "v", s.get)
			}
			require.NoError(t, s.Freeze())
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := s.get(ctx)
			require.Error(t, err)
			require.NoError(t, s.Thaw())
			has(t, "v", s.get)

			require.ErrorContains(t, s.WipeData(), "stop the ")
			require.NoError(t, s.Kill())
			require.NoError(t, s.WipeData())
			require.NoError(t, s.Restart(t.Context()))
			has(t, "", s.get)
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

// The clock is the machine's until it jumps. The jump survives the process and its data, so tokens from the clock still rise.
func TestClock(t *testing.T) {
	t.Parallel()
	if err := ClockInstalled(); !errors.Is(err, errors.ErrUnsupported) {
		NeedInstalled(t, err)
	} else {
		t.Skip(err)
	}
	r := NeedRedis(t, RedisOptions{Clock: true})
	ahead := func(want time.Duration) {
		t.Helper()
		now, err := r.Do(t.Context(), "EVAL", "return tonumber(redis.call('TIME')[1])", 0) // scripts see it too
		require.NoError(t, err)
		require.InDelta(t, want, time.Until(time.Unix(now.(int64), 0)), float64(10*time.Second))
	}
	ahead(0)
	require.NoError(t, r.JumpClock(time.Hour))
	ahead(time.Hour)
	require.NoError(t, r.JumpClock(-3*time.Hour))
	ahead(-2 * time.Hour)
	require.NoError(t, r.Kill())
	require.NoError(t, r.WipeData())
	require.NoError(t, r.Restart(t.Context()))
	ahead(-2 * time.Hour)
	require.Error(t, SharedRedis(t).JumpClock(time.Second))
}

// requireNotRoot checks the processes of a server and their children.
func requireNotRoot(t *testing.T, s *Server) {
	t.Helper()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		return // not Linux
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

// TestFrozenMeansSilent would catch an answer between the signal and the stop.
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
	for kind, s := range map[string]*Server{
		"redis": SharedRedis(t).Server, "etcd": SharedEtcd(t).Server, "zookeeper": SharedZooKeeper(t).Server,
		"postgres": SharedPostgres(t).Server, "mariadb": SharedMariaDB(t).Server,
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

// soon requires that try returns nil soon.
func soon(t *testing.T, try func(ctx context.Context) error) {
	t.Helper()
	require.NoError(t, Poll(t.Context(), try))
}

// has requires that get works soon and then returns want.
func has(t *testing.T, want string, get func(ctx context.Context) (string, error)) {
	t.Helper()
	var got string
	soon(t, func(ctx context.Context) (err error) { got, err = get(ctx); return err })
	require.Equal(t, want, got)
}
