package servers

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestReplica(t *testing.T) {
	t.Parallel()
	master := NeedRedis(t, RedisOptions{Password: "secret"})
	do(t, master, "SET", "k", "before")
	replica := NeedReplica(t, master)
	require.Equal(t, "before", do(t, replica.Redis, "GET", "k"))
	info, err := master.Info(t.Context(), "replication")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(replica.Addr())
	require.NoError(t, err)
	require.Contains(t, info["slave0"], "ip=127.0.0.1,port="+port, "the master knows the replica by its own address, not the link's")

	replica.Link.BlackholeReplies()
	do(t, master, "SET", "k", "unheard")
	require.Equal(t, "before", do(t, replica.Redis, "GET", "k"))
	replica.Link.Restore()
	require.NoError(t, replica.Follow(t.Context(), master, replica.Link.Addr()))
	require.Equal(t, "unheard", do(t, replica.Redis, "GET", "k"))

	// A master that dies just after the answer.
	do(t, master, "SET", "k", "last")
	require.NoError(t, master.Kill())
	eventually(t, func() bool { return do(t, replica.Redis, "GET", "k") == "last" }, "what the master has acknowledged")
	require.NoError(t, replica.Promote(t.Context()))
	do(t, replica.Redis, "SET", "k", "promoted")
	require.NoError(t, master.Restart(t.Context()))
	require.NoError(t, master.Follow(t.Context(), replica.Redis, replica.Addr()))
	require.Equal(t, "promoted", do(t, master, "GET", "k"), "the other way round")
	require.Error(t, master.Follow(t.Context(), replica.Redis, "nowhere"))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := NeedSentinel(t, SentinelOptions{DownAfter: 3 * time.Second}) // a busy machine lets no node look down
	require.Len(t, s.Nodes, 2)
	require.Len(t, s.Addrs(), 3)
	for _, sentinel := range s.Sentinels {
		requireNotRoot(t, sentinel.server)
		require.Contains(t, do(t, sentinel, "SENTINEL", "CKQUORUM", s.MasterName()), "OK 3 usable Sentinels")
	}
	do(t, s.Nodes[0], "SET", "k", "v")
	eventually(t, func() bool { return do(t, s.Nodes[1], "GET", "k") == "v" }, "replication")

	killed, err := s.KillMaster(t.Context())
	require.NoError(t, err)
	require.Same(t, s.Nodes[0], killed)
	next, err := s.WaitFailover(t.Context(), killed)
	require.NoError(t, err)
	require.Same(t, s.Nodes[1], next)
	require.Equal(t, "v", do(t, next, "GET", "k"))
	do(t, next, "SET", "k", "w")

	require.NoError(t, s.Sentinels[0].Kill())
	require.NoError(t, s.Sentinels[1].Freeze())
	require.NoError(t, s.Mend(t.Context()))
	require.Equal(t, "w", do(t, killed, "GET", "k"), "it replicates the new master")
	master, err := s.Master(t.Context())
	require.NoError(t, err)
	require.Same(t, next, master)
}

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

func TestEtcdCluster(t *testing.T) {
	for name, o := range map[string]EtcdOptions{"installed": {Cuttable: true}, "current": {Current: true, Cuttable: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := NeedEtcdCluster(t, o)
			require.Equal(t, "etcd://"+strings.Join(c.Addrs(), ","), c.URL())
			testQuorum(t, &c.quorumGroup, put, get, func(e *Etcd) error { return e.Restart(t.Context()) })
		})
	}
}

func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := NeedEnsemble(t, ZooKeeperOptions{})
	require.Equal(t, "zookeeper://"+strings.Join(e.Addrs(), ","), e.URL())
	testEndSession(t, e)
	testQuorum(t, &e.quorumGroup, zkPut, zkGet, func(z *ZooKeeper) error { return errors.Join(z.WipeData(), z.Restart(t.Context())) })
}

// testQuorum requires that two of three nodes serve, whatever happens to the third, and that this one then learns what it has missed.
// restart starts a node that was killed.
func testQuorum[N interface {
	member
	Kill() error
	Freeze() error
	Thaw() error
}](t *testing.T, q *quorumGroup[N], put func(context.Context, N, string) error, get func(context.Context, N) (string, error), restart func(N) error) {
	var nobody N
	leader := func(old N) (N, int) {
		t.Helper()
		leader, err := q.WaitFailover(t.Context(), old)
		require.NoError(t, err)
		require.NotEqual(t, old, leader)
		return leader, slices.Index(q.Nodes, leader)
	}
	puts := func(n N, value string) {
		t.Helper()
		require.NoError(t, Poll(soon(t), func() error { return put(t.Context(), n, value) }))
	}
	allHave := func(want string) {
		t.Helper()
		for _, n := range q.Nodes {
			var got string
			require.NoError(t, Poll(soon(t), func() (err error) { got, err = get(t.Context(), n); return err }))
			require.Equal(t, want, got)
		}
	}
	for what, fault := range map[string]struct{ out, in func(N) error }{"kill": {N.Kill, restart}, "freeze": {N.Freeze, N.Thaw}} {
		old, _ := leader(nobody)
		require.NoError(t, fault.out(old))
		next, _ := leader(old)
		puts(next, what)
		require.NoError(t, fault.in(old))
		allHave(what)
	}

	old, i := leader(nobody) // one of the nodes was restarted, and speaks through its proxy again
	cut := (i + 1) % len(q.Nodes)
	q.CutFromQuorum(cut)
	puts(old, "without a follower")
	eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := get(ctx, q.Nodes[cut])
		return err != nil
	}, "a node that serves nothing, since it is cut from the others")
	still, _ := leader(nobody)
	require.Equal(t, old, still)
	q.Heal()
	allHave("without a follower")

	old, i = leader(nobody)
	q.CutFromQuorum(i)
	next, _ := leader(old)
	puts(next, "without the leader")
	for i := range q.Nodes {
		q.CutFromQuorum(i)
	}
	eventually(t, func() bool {
		leads, _ := next.leads(t.Context())
		return !leads
	}, "a leader that gives up, since it is alone")
	q.Heal()
	allHave("without the leader")
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

func testEndSession(t *testing.T, e *Ensemble) {
	theirs, others := zkConnect(t, e.Nodes[0].Addr()), zkConnect(t, e.Nodes[1].Addr())
	create(t, theirs, "/theirs", zk.FlagEphemeral)
	create(t, others, "/others", zk.FlagEphemeral)
	session := theirs.SessionID()
	for _, through := range e.Nodes { // one of them leads; ending it twice is no error
		require.NoError(t, through.EndSession(soon(t), session))
	}
	require.False(t, exists(t, others, "/theirs"))
	require.True(t, exists(t, others, "/others"))
	_, err := theirs.Create("/again", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.Error(t, err, "the client goes on in a session that has ended")
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

func TestPostgresReplica(t *testing.T) {
	t.Parallel()
	primary := NeedPostgres(t, PostgresOptions{Settings: map[string]string{"max_connections": "30"}})
	replica := NeedPostgres(t, PostgresOptions{Primary: primary, Settings: map[string]string{"log_min_messages": "error"}})
	conn := pgConnect(t, replica.URL())
	require.True(t, pgValue[bool](t, conn, "SELECT pg_is_in_recovery()"))
	require.Equal(t, "30", pgValue[string](t, conn, "SHOW max_connections"))
	pgExec(t, pgConnect(t, primary.URL()), "CREATE TABLE copied ()")
	eventually(t, func() bool { _, err := conn.Exec(t.Context(), "SELECT FROM copied"); return err == nil }, "replication")

	// They change places.
	promoted := pgConnect(t, replica.AdminURL())
	require.True(t, pgValue[bool](t, promoted, "SELECT pg_promote()"))
	pgExec(t, promoted, "CREATE TABLE made_later ()")
	require.NoError(t, primary.Follow(t.Context(), replica))
	follower := pgConnect(t, primary.AdminURL())
	require.True(t, pgValue[bool](t, follower, "SELECT pg_is_in_recovery()"))
	pgExec(t, follower, "SELECT FROM made_later")
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

func pgExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}
