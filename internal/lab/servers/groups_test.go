package servers

import (
	"context"
	"fmt"
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
	s := NeedSentinel(t, SentinelOptions{
		DownAfter: 3 * time.Second, // a busy machine lets no node look down
		Redis:     RedisOptions{TLS: true, Password: `se "cret`, Users: []string{"alice on >a ~* &* +@all"}},
	})
	require.Len(t, s.Nodes, 2)
	require.Len(t, s.Addrs(), 3)
	for _, r := range slices.Concat(s.Nodes, s.Sentinels) {
		requireNotRoot(t, r.server)
	}
	for _, sentinel := range s.Sentinels {
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
	for _, o := range []RedisOptions{{}, {TLS: true, Password: "secret"}} {
		t.Run(fmt.Sprint("TLS ", o.TLS), func(t *testing.T) {
			t.Parallel()
			c := NeedCluster(t, o)
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
		})
	}
}

func TestEtcdCluster(t *testing.T) {
	for name, o := range map[string]EtcdOptions{"installed": {TLS: true, Cuttable: true}, "current": {Current: true, Cuttable: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := NeedEtcdCluster(t, o)
			require.Equal(t, o.scheme("etcd")+strings.Join(c.Addrs(), ","), c.URL())
			lead := func() *Etcd {
				leader, err := c.Leader(t.Context())
				require.NoError(t, err)
				return leader
			}
			puts := func(e *Etcd, value string) {
				t.Helper()
				require.NoError(t, poll(soon(t), func() error { return put(t.Context(), e, "k", value) }))
			}
			requireValue := func(e *Etcd, value string) {
				t.Helper()
				var got string
				require.NoError(t, poll(soon(t), func() (err error) { got, err = get(t.Context(), e, "k"); return err }))
				require.Equal(t, value, got)
			}
			for what, fault := range map[string]struct{ out, in func(*Etcd) error }{
				"kill":   {(*Etcd).Kill, func(e *Etcd) error { return e.Restart(t.Context()) }},
				"freeze": {(*Etcd).Freeze, (*Etcd).Thaw},
			} {
				old := lead()
				require.NoError(t, fault.out(old))
				next := lead()
				require.NotSame(t, old, next)
				puts(next, what)
				require.NoError(t, fault.in(old))
				requireValue(old, what)
			}
			cut := lead() // one of the nodes was restarted, and speaks through its proxy again
			at := slices.Index(c.Nodes, cut)
			c.CutFromQuorum(at)
			puts(c.Nodes[(at+1)%etcdNodes], "cut")
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			_, err := get(ctx, cut, "k") // takes a majority
			cancel()
			require.Error(t, err, "it is not cut")
			c.Heal()
			requireValue(cut, "cut")

			require.NoError(t, c.Restart(t.Context()))
			requireValue(c.Nodes[0], "cut")
			leader := lead()
			for _, node := range c.Nodes {
				if node != leader {
					require.NoError(t, node.Kill())
				}
			}
			_, err = c.agreed(t.Context())
			require.ErrorContains(t, err, "no majority")
		})
	}
}

func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := NeedEnsemble(t, ZooKeeperOptions{})
	require.Equal(t, "zookeeper://"+strings.Join(e.Addrs(), ","), e.URL())
	leads := func(old *ZooKeeper) (leader *ZooKeeper, i int) {
		t.Helper()
		leader, err := e.WaitFailover(t.Context(), old)
		require.NoError(t, err)
		require.NotSame(t, old, leader)
		return leader, slices.Index(e.Nodes, leader)
	}
	waitMode := func(z *ZooKeeper, want string) { // "": it has no leader
		t.Helper()
		eventually(t, func() bool { got, _ := mode(t.Context(), z.Addr()); return got == want }, want)
	}
	// whole requires that every node is a follower but one, and soon has what is written through any.
	whole := func(path string, through *ZooKeeper) {
		t.Helper()
		leader, _ := leads(nil)
		for _, node := range e.Nodes {
			waitMode(node, map[bool]string{true: "leader", false: "follower"}[node == leader])
		}
		create(t, zkConnect(t, through.Addr()), path, 0)
		for _, node := range e.Nodes {
			conn := zkConnect(t, node.Addr())
			_, err := conn.Sync("/")
			require.NoError(t, err)
			require.True(t, exists(t, conn, path))
		}
	}
	leader, _ := leads(nil)
	whole("/at-the-start", leader)
	testEndSession(t, e)

	require.NoError(t, leader.Kill())
	leads(leader)
	require.NoError(t, leader.WipeData())
	require.NoError(t, leader.Restart(t.Context()))
	whole("/after-a-kill", leader)

	frozen, _ := leads(nil)
	require.NoError(t, frozen.Freeze())
	leads(frozen)
	require.NoError(t, frozen.Thaw())
	whole("/after-a-freeze", frozen)

	leader, i := leads(nil)
	follower := e.Nodes[(i+1)%ensembleSize]
	e.CutFromQuorum((i + 1) % ensembleSize)
	waitMode(follower, "")
	answer, err := follower.FourLetter(t.Context(), "ruok")
	require.NoError(t, err, "clients still reach it")
	require.Equal(t, "imok", answer)
	still, _ := leads(nil)
	require.Same(t, leader, still)
	create(t, zkConnect(t, leader.Addr()), "/without-a-follower", 0)
	e.Heal()
	whole("/after-a-heal", follower)

	leader, i = leads(nil)
	e.CutFromQuorum(i)
	next, _ := leads(leader)
	waitMode(leader, "")
	create(t, zkConnect(t, next.Addr()), "/without-the-leader", 0)
	for i := range e.Nodes {
		e.CutFromQuorum(i)
	}
	for _, node := range e.Nodes {
		waitMode(node, "")
	}
	e.Heal()
	whole("/after-the-last-heal", leader)
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
	require.NoError(t, poll(soon(t), func() (err error) { found, _, err = conn.Exists(path); return err }))
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
