package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

func TestCheckErrors(t *testing.T) {
	p := database(t)
	const password = `se'cr\et@1`
	execute(t, p.root, `CREATE ROLE odd LOGIN PASSWORD `+quote(password)+`; CREATE SCHEMA odd AUTHORIZATION odd`)
	peer.Notices(t, p.UserURL("odd", password)+"?schema=odd")
	peer.Refuses(t, p.UserURL("lockport", "wrong-secret"), driver.ErrRefused, "check the user name, the password")
	peer.Refuses(t, p.URL()+"absent", driver.ErrRefused, "create the database")
	peer.Refuses(t, p.URL()+"?sslmode=require", driver.ErrUnavailable, "server refused TLS connection")
	peer.Refuses(t, peer.Via(t, p.URL(), "lockport.invalid:5432"), driver.ErrUnavailable, "lockport.invalid")
	peer.Refuses(t, peer.Via(t, p.URL(), "127.0.0.1:1"), driver.ErrUnavailable, "connection refused")
	// The error of a timeout is one line, although pgx writes a line for each attempt.
	attempts := errors.Join(fmt.Errorf("a: %w", context.DeadlineExceeded), fmt.Errorf("b: %w", context.DeadlineExceeded))
	peer.SaysOneLine(t, classify(fmt.Errorf("failed to connect to `user=u database=d`:\n%w", attempts)), context.DeadlineExceeded, "a: context deadline exceeded; b: ")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{TLS: true})
	l := peer.Holds(t, clientAt(t, p.URL()+"?sslmode=verify-full&sslrootcert="+p.CAFile()), "x")
	require.True(t, query[bool](t, admin(t, p.AdminURL()), `SELECT ssl FROM pg_stat_ssl WHERE pid = $1`, sessionOf(t, l).PID))
	require.NoError(t, l.Release(t.Context()), "the end of a Listen must leave TLS usable")
	peer.Refuses(t, p.URL()+"?sslmode=verify-full", driver.ErrRefused, "certificate")
	peer.Refuses(t, p.URL()+"?sslmode=verify-ca", driver.ErrRefused, "check sslmode and the certificates")
}

func TestReplicaIsRefused(t *testing.T) {
	t.Parallel()
	primary := servers.SharedPostgres(t)
	replica := servers.NeedPostgres(t, servers.PostgresOptions{Primary: primary})
	peer.Refuses(t, replica.URL(), driver.ErrRefused, "connect to the primary")
	require.ErrorIs(t, peer.ErrOf(clientAt(t, replica.URL()).TryAcquire(t.Context(), "x")), lockport.ErrUnavailable) // it may be back after a fail-over
	require.ErrorIs(t, peer.ErrOf(clientAt(t, replica.URL()).Inspect(t.Context(), "x")), lockport.ErrUnavailable)    // it does not know who has the lock
	require.ErrorIs(t, classify(&pgconn.PgError{Code: "25006"}), session.ErrReadOnly)
	plain := fmt.Errorf("a: %w", &pgconn.PgError{Code: "28000"})
	require.ErrorIs(t, classify(errors.Join(plain, errors.New("b: dial error: refused"))), driver.ErrUnavailable)
	alert := fmt.Errorf("a: %w", &net.OpError{Op: "remote error", Err: errors.New("expired certificate")})
	peer.SaysOneLine(t, classify(errors.Join(alert, plain)), driver.ErrRefused, "check sslmode and the certificates")
	// Several hosts: one that can hold locks is chosen.
	both := peer.Via(t, primary.URL(), replica.Addr()+","+primary.Addr())
	peer.Notices(t, both)
	peer.Refuses(t, both+"?target_session_attrs=any", driver.ErrRefused, "connect to the primary")
}

// A host whose addresses accept connections and then are silent does not keep a session from the next host.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	silent := peer.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = silent.Close() }()
	_, port, _ := net.SplitHostPort(silent.Addr().String())
	s := servers.SharedPostgres(t)
	names := strings.NewReplacer("silent", "127.0.0.1:"+port+",localhost:"+port, "half", s.Addr()+",localhost:"+port)
	for _, hosts := range []string{"silent:1," + s.Addr(), "half:1"} { // half has no TLS, and its other address is silent
		b := peer.Must(NewBackend(poolAt(t, peer.Via(t, s.URL(), hosts)+"?sslmode=prefer", func(config *pgxpool.Config) {
			config.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) {
				return strings.Split(names.Replace(host), ","), nil
			}
		}), Options{}))(t)
		require.NoError(t, peer.Holds(t, peer.Client(t, b), "silent-host").Release(t.Context()))
	}
}

// disguised is a connection on which other text appears, of the same length.
type disguised struct {
	net.Conn
	*strings.Replacer
}

func (d disguised) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	return copy(p, d.Replace(string(p[:n]))), err
}
func (d disguised) Write(p []byte) (int, error) { return d.Conn.Write([]byte(d.Replace(string(p)))) }

// CockroachDB tells its version. Pgpool-II, whose connections to the server are its own, answers SHOW pool_version.
func TestCockroachDBAndPgpool(t *testing.T) {
	p := servers.SharedPostgres(t)
	via := peer.Via(t, p.URL(), peer.Proxy(t, p.Addr()).Addr())
	for name, text := range map[string][]string{"CockroachDB": {"is_superuser", "crdb_version"}, "Pgpool-II": {"pool_version", "work_mem    "}} {
		pool := dialing(t, via, func(c net.Conn) net.Conn { return disguised{c, strings.NewReplacer(text...)} })
		peer.SaysOneLine(t, peer.ErrOf(peer.Must(NewBackend(pool, Options{}))(t).Check(t.Context())), driver.ErrRefused, name)
	}
}

// PgBouncer works in session mode, and is refused in any other.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	p := servers.SharedPostgres(t)
	peer.Notices(t, p.URL())
	t.Run("session", func(t *testing.T) {
		t.Parallel()
		b := servers.NeedPgBouncer(t, servers.PgBouncerOptions{Server: p, Mode: "session"})
		one, two := clientAt(t, b.URL()), clientAt(t, p.URL())
		l := peer.Holds(t, one, "session-mode")
		require.ErrorIs(t, peer.ErrOf(two.TryAcquire(t.Context(), "session-mode")), lockport.ErrHeld)
		got := peer.Acquiring(t, two, "session-mode")
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, peer.Eventually(t, got).Release(t.Context()))

		// The pooler gives the process of a lost session to the next.
		proxy := peer.Proxy(t, b.Addr())
		cut := clientAt(t, peer.Via(t, b.URL(), proxy.Addr()))
		l = peer.Holds(t, cut, "cut")
		proxy.KillConns()
		peer.Eventually(t, l.Lost())
		next := peer.Holds(t, cut, "after the cut")
		require.Never(t, func() bool { return !next.Valid() }, time.Second, 10*time.Millisecond, "the end of the lost session ended the next")
		require.NoError(t, next.Release(t.Context()))

		l = peer.Holds(t, one, "session-mode")
		require.NoError(t, b.Kill())
		peer.Eventually(t, l.Lost())
		require.NoError(t, peer.Holds(t, two, "session-mode").Release(t.Context()))
		require.NoError(t, b.Restart(t.Context())) // otherwise the end of the earlier session stays uncertain
	})
	t.Run("session, then transaction", func(t *testing.T) {
		t.Parallel()
		b := servers.NeedPgBouncer(t, servers.PgBouncerOptions{Server: p, Config: []string{"admin_users = " + admin(t, p.URL()).Config().User}})
		var clients []*lockport.Client
		for range 2 {
			c := peer.Must(lockport.Open(t.Context(), b.URL()))(t)
			require.NoError(t, peer.Holds(t, c, "changed-mode").Release(t.Context())) // prepares the statements
			clients = append(clients, c)
		}
		config := admin(t, b.URL()).Config()
		config.Database, config.DefaultQueryExecMode = "pgbouncer", pgx.QueryExecModeSimpleProtocol
		console := peer.Must(pgx.ConnectConfig(t.Context(), config))(t)
		defer console.Close(t.Context())
		l := peer.Holds(t, clients[0], "held-before")
		execute(t, console, "SET pool_mode = transaction")
		peer.Must(clients[0].TryAcquire(t.Context(), "held-after"))(t) // now the session serves others
		require.ErrorIs(t, peer.ErrOf(lockport.Open(t.Context(), b.URL())), lockport.ErrRefused)
		require.ErrorIs(t, peer.ErrOf(clientAt(t, p.URL()).TryAcquire(t.Context(), "held-before")), lockport.ErrHeld, "valid: %v", l.Valid())
		for range 30 {
			var locks []*lockport.Lock
			for i, c := range []*lockport.Client{clients[0], clients[1], clients[0]} {
				if l, err := c.TryAcquire(t.Context(), "changed-mode"); err == nil && i == 0 {
					_ = l.Release(t.Context())
				} else if err == nil {
					locks = append(locks, l)
				}
			}
			locks = slices.DeleteFunc(locks, func(l *lockport.Lock) bool { return !l.Valid() })
			require.Less(t, len(locks), 2, "two holders")
			for _, l := range locks {
				_ = l.Release(t.Context())
			}
		}
		execute(t, console, "RECONNECT") // no session of the server has the marker of another client any more
		peer.Until(t, func() bool {
			return errors.Is(peer.ErrOf(clients[0].TryAcquire(t.Context(), time.Now().String())), errSharing)
		})
	})
	t.Run("session, with a client_idle_timeout", func(t *testing.T) {
		t.Parallel()
		b := servers.NeedPgBouncer(t, servers.PgBouncerOptions{Server: p, Config: []string{"client_idle_timeout = 1"}})
		l := peer.Holds(t, clientAt(t, b.URL()+"?ttl=30s", lockport.TTL(30*time.Second)), "client-idle-timeout")
		peer.Must(io.Copy(io.Discard, admin(t, b.URL()).PgConn().Conn()))(t) // until PgBouncer disconnects it
		require.NoError(t, l.Release(t.Context()), "a client with a session does not count as idle")
	})
	for name, o := range map[string]servers.PgBouncerOptions{
		"transaction":                   {Mode: "transaction"},
		"statement":                     {Mode: "statement"},
		"transaction, a single session": {Mode: "transaction", Config: []string{"default_pool_size = 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Server = p
			peer.Refuses(t, servers.NeedPgBouncer(t, o).URL(), driver.ErrRefused, "pool_mode = session")
		})
	}
	t.Run("transaction, one after the other", func(t *testing.T) {
		t.Parallel()
		b := servers.NeedPgBouncer(t, servers.PgBouncerOptions{Server: p, Mode: "transaction", Config: []string{"server_round_robin = 1"}})
		clients := []*pgx.Conn{admin(t, b.URL()), admin(t, b.URL()), admin(t, b.URL())}
		for _, statement := range []string{"BEGIN", "COMMIT"} { // afterwards the pooler has three idle sessions
			for _, conn := range clients {
				execute(t, conn, statement)
			}
		}
		peer.Refuses(t, b.URL(), driver.ErrRefused, "pool_mode = session")
	})
}

// A role without CREATE is told which objects to have created.
func TestPrivileges(t *testing.T) {
	p := database(t)
	execute(t, p.root, `CREATE ROLE app LOGIN PASSWORD 'app-secret'; REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT CREATE ON SCHEMA public TO lockport`) // as on PostgreSQL 15
	app := p.UserURL("app", "app-secret")
	peer.Refuses(t, app, driver.ErrRefused, `have their owner run: CREATE SEQUENCE IF NOT EXISTS "`)

	// The schema's owner creates the sequence, which begins after the transaction ids that earlier versions could use for tokens.
	newest := lockport.Token(query[int64](t, p.root, `SELECT pg_current_xact_id()::text::bigint`) * driver.TokensPerGrant)
	l := peer.Holds(t, clientAt(t, p.URL()), "x")
	require.Greater(t, tokenOf(t, l), newest)
	token := tokenOf(t, l)
	require.NoError(t, l.Release(t.Context()))
	peer.Refuses(t, app, driver.ErrRefused, "GRANT USAGE, SELECT, UPDATE ON SEQUENCE")
	execute(t, p.root, strings.TrimPrefix(tokens{schema: "public"}.grants(), "; ")+`; UPDATE public.lockport_epoch SET begun = now()`) // an earlier version's row
	peer.Notices(t, app)
	for _, right := range []string{"UPDATE ON public.lockport_token", "SELECT ON public.lockport_token", "INSERT ON public.lockport_epoch"} { // which the session did not need
		execute(t, p.root, "REVOKE "+right+" FROM PUBLIC")
		peer.Refuses(t, app, driver.ErrRefused, "GRANT USAGE, SELECT, UPDATE ON SEQUENCE")
		execute(t, p.root, "GRANT "+right+" TO PUBLIC")
	}
	l = peer.Holds(t, clientAt(t, app), "x")
	require.Greater(t, tokenOf(t, l), token+crashGap*driver.TokensPerGrant)
	require.NoError(t, l.Release(t.Context()))

	peer.Refuses(t, app+"?schema=absent", driver.ErrRefused, "schema")
	execute(t, p.root, `CREATE SCHEMA "Locks""é" AUTHORIZATION app`)
	require.NoError(t, peer.Holds(t, clientAt(t, app+"?schema=Locks%22%C3%A9"), "x").Release(t.Context()))
	execute(t, p.root, `REVOKE SELECT ON pg_locks FROM PUBLIC`)
	peer.Refuses(t, app, driver.ErrRefused, "permission denied for view pg_locks (SQLSTATE 42501): grant the privilege")
}

func TestNotices(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{Config: []string{"max_connections = 20"}})
	require.Equal(t, []string{"fsync"}, peer.Notices(t, p.URL()))
	conn := admin(t, p.AdminURL())
	require.Contains(t, peer.Notices(t, servers.NeedPgBouncer(t, servers.PgBouncerOptions{Server: p}).URL()), "pooler")
	require.Equal(t, []string{"fsync", "connections"}, peer.Notices(t, p.URL()+"?blockers=17"))
	for _, change := range []string{"CACHE 20", "CACHE 1 INCREMENT -1 START 5", "INCREMENT 1 CYCLE"} {
		execute(t, conn, "ALTER SEQUENCE public.lockport_token "+change)
		require.Equal(t, []string{"fsync", "sequence"}, peer.Notices(t, p.URL()), change)
	}
	execute(t, conn, `ALTER SEQUENCE public.lockport_token CACHE 1 INCREMENT 1 NO CYCLE`)
	servers.NeedPostgres(t, servers.PostgresOptions{Primary: p})
	require.Eventually(t, func() bool {
		found, err := peer.Check(t, p.URL())
		return err == nil && slices.Equal([]string{"fsync", "replication"}, peer.IDs(found))
	}, soon, 10*time.Millisecond, "the replica has not connected to the primary")
	execute(t, conn, "REVOKE SELECT ON pg_stat_replication FROM PUBLIC")
	require.Equal(t, []string{"fsync", "catalog?"}, peer.Notices(t, p.URL()))
	require.Empty(t, peer.Notices(t, servers.NeedPostgres(t, servers.PostgresOptions{Config: []string{"fsync = on", "full_page_writes = on"}}).URL()))
}
