package servers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	c := NeedCluster(t, RedisOptions{Password: "secret"})
	require.Len(t, c.Addrs(), 3)
	served := 0
	for _, node := range c.Nodes {
		if _, err := node.Do(t.Context(), "SET", "k", "v"); err != nil {
			require.ErrorContains(t, err, "MOVED 7629 127.0.0.1:")
			continue
		}
		served++
	}
	require.Equal(t, 1, served)
}

// A member that is cut from the others serves nothing until the cut is healed; the others go on, under another leader if need be.
func TestCutFromQuorum(t *testing.T) {
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		c := NeedEtcdCluster(t, EtcdOptions{Cuttable: true})
		testCut(t, &c.quorumGroup, put, get)
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		e := NeedEnsemble(t, ZooKeeperOptions{})
		testCut(t, &e.quorumGroup, zkPut, zkGet)
	})
}

func testCut[N member](t *testing.T, q *quorumGroup[N], put func(context.Context, N, string) error, get func(context.Context, N) (string, error)) {
	old, err := q.Leader(t.Context())
	require.NoError(t, err)
	q.CutFromQuorum(slices.Index(q.Nodes, old))
	next, err := q.WaitFailover(t.Context(), old)
	require.NoError(t, err)
	require.NoError(t, Poll(soon(t), func() error { return put(t.Context(), next, "v") }))
	eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := get(ctx, old)
		return err != nil
	}, "a node that serves nothing, since it is cut from the others")
	q.Heal()
	for _, n := range q.Nodes {
		eventually(t, func() bool { got, err := get(t.Context(), n); return err == nil && got == "v" }, "a node that has what was written")
	}
}

func zkPut(ctx context.Context, z *ZooKeeper, value string) error {
	return zkUse(ctx, z, func(conn *zk.Conn) error {
		_, err := conn.Create("/k", []byte(value), 0, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) {
			_, err = conn.Set("/k", []byte(value), -1)
		}
		return err
	})
}

func zkGet(ctx context.Context, z *ZooKeeper) (value string, err error) {
	err = zkUse(ctx, z, func(conn *zk.Conn) error {
		if _, err := conn.Sync("/k"); err != nil {
			return err
		}
		data, _, err := conn.Get("/k")
		if value = string(data); errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
	return value, err
}

// zkUse lends a connection with a session of its own: one that ended with the data is not taken up again.
func zkUse(ctx context.Context, z *ZooKeeper, f func(conn *zk.Conn) error) error {
	conn, _, err := zk.Connect([]string{z.Addr()}, 5*time.Second, zk.WithLogger(silence{}), zk.WithDialer(DialZooKeeper))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	return f(conn)
}

func create(t *testing.T, conn *zk.Conn, path string, flags int32) {
	t.Helper()
	_, err := conn.Create(path, []byte("v"), flags, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

// exists is whether the servers know a node, as soon as the client, which lost them for a moment, has them again.
func exists(t *testing.T, conn *zk.Conn, path string) (found bool) {
	t.Helper()
	require.NoError(t, Poll(soon(t), func() (err error) { found, _, err = conn.Exists(path); return err }))
	return found
}

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	b := NeedPgBouncer(t, PgBouncerOptions{Server: SharedPostgres(t), Mode: "transaction", Config: []string{"default_pool_size = 2"}})
	requireNotRoot(t, b.server)
	config, err := pgx.ParseConfig(b.URL())
	require.NoError(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	require.NotEqual(t, conn.PgConn().PID(), uint32(pgValue[int32](t, conn, "SELECT pg_backend_pid()")))
	require.NoError(t, conn.Close(t.Context()))
}

func pgValue[T any](t *testing.T, conn *pgx.Conn, sql string) (v T) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&v))
	return v
}
