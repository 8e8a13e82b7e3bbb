package postgres

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/session"
)

// traced records the statements that pgx sends.
type traced struct {
	mu  sync.Mutex
	all []string
}

// taken returns the statements since its last call.
func (r *traced) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

func (r *traced) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d.SQL)
	return ctx
}
func (r *traced) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// readers are tries of ten keys.
func readers() (ops []*session.Op) {
	for key := range int64(10) {
		ops = append(ops, reader(session.Try, 11+key))
	}
	return ops
}

// The tracer of the caller's pool sees the set-up of a session, and every statement on locks.
func TestTracerSeesEveryStatement(t *testing.T) {
	p := database(t)
	tracer := new(traced)
	pool := poolAt(t, p.URL(), func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer })
	a := dialed(t, peer.Must(NewBackend(pool, Options{TTL: testTTL}))(t).server)
	require.True(t, slices.ContainsFunc(tracer.taken(), func(sql string) bool { return strings.Contains(sql, "LISTEN") }))
	for _, step := range []struct {
		ops  []*session.Op
		want []string
	}{
		{[]*session.Op{op(session.Try, 1)}, []string{"lp_try"}},
		{[]*session.Op{op(session.Ping, 0)}, []string{"lp_ping"}},
		{[]*session.Op{op(session.Free, 1), op(session.Try, 2), op(session.Try, 3)}, []string{"lp_free_lp_try"}},
		{[]*session.Op{op(session.Free, 2)}, []string{"lp_free"}},
		{[]*session.Op{op(session.Await, 4)}, []string{"lp_await"}},
		{[]*session.Op{op(session.Leave, 4)}, []string{"lp_leave"}},
		{[]*session.Op{{Kind: session.End, Earlier: &conn{pid: 1}}}, []string{"lp_end"}},
		{readers(), []string{"lp_free_lp_try"}},
		{readers(), []string{"lp_try_beside"}}, // a burst beside earlier readers does not delay renewals
	} {
		ask(t, a, step.ops...)
		require.Equal(t, step.want, tracer.taken())
		require.False(t, slices.ContainsFunc(step.ops, func(op *session.Op) bool { return op.Kind == session.Try && !op.OK }))
	}
	require.NoError(t, peer.Eventually(t, waits(t, a, op(session.Try, 5))))
	require.Equal(t, []string{"lp_contend", "lp_wait"}, tracer.taken())

	// The session has prepared no other statement.
	require.Equal(t, 10, value[int](t, a, `SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'lp%'`))
}

// Connections taken from a sql.DB are closed after use.
func TestDB(t *testing.T) {
	p := database(t)
	tracer := new(traced)
	db := dbAt(t, p.URL(), func(config *pgx.ConnConfig) {
		config.Tracer, config.DefaultQueryExecMode = tracer, pgx.QueryExecModeSimpleProtocol // as set by users of poolers
	})
	dialed(t, backendAt(t, p.URL()).server) // creates the token sequence, which would end an open transaction
	earlier := peer.Must(db.Conn(t.Context()))(t)
	require.NoError(t, peer.ErrOf(earlier.ExecContext(t.Context(), "BEGIN; SELECT pg_advisory_lock(42)")))
	require.NoError(t, earlier.Close())
	c := peer.Must(NewDB(db, Options{ExactKeys: true}, lockport.Logger(nil)))(t)
	l := peer.Holds(t, c, "42")
	require.NoError(t, peer.ErrOf(c.Inspect(t.Context(), "42")))
	require.Equal(t, 1, db.Stats().InUse)
	require.Zero(t, query[int](t, p.root, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"))
	require.NoError(t, l.Release(t.Context()))
	require.Zero(t, query[int](t, p.root, "SELECT count(*) FROM locks"), "the session shared its connection's earlier locks")
	require.Subset(t, tracer.taken(), []string{"lp_try", "lp_free"})
	require.NoError(t, c.Close())
	require.Zero(t, db.Stats().OpenConnections, "a session's connection went back to the pool, with its settings")
	require.NoError(t, db.PingContext(t.Context()))

	require.ErrorIs(t, peer.ErrOf(NewDB(nil, Options{})), lockport.ErrInvalidOption)
	foreign := peer.Must(sql.Open("mysql", "user@/database"))(t)
	peer.SaysOneLine(t, peer.ErrOf(NewDB(foreign, Options{})), lockport.ErrInvalidOption, "github.com/jackc/pgx/v5/stdlib")
	wrong := peer.Must(NewDBBackend(peer.Must(sql.Open("pgx", "postgres://u:secret@h:54x/db"))(t), Options{}))(t) // no error shows the password
	peer.SaysOneLine(t, peer.ErrOf(peer.Client(t, wrong).TryAcquire(t.Context(), "x")), lockport.ErrRefused, "connection string cannot be used: ")
}

// A client that waits leaves one connection of a small DB to the caller's queries. The caller's OnNotification may take the notifications.
func TestSmallDB(t *testing.T) {
	p := database(t)
	db := dbAt(t, p.URL(), func(config *pgx.ConnConfig) { config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {} })
	db.SetMaxOpenConns(2)
	c := peer.Client(t, peer.Must(NewDBBackend(db, Options{}))(t))
	l := peer.Holds(t, clientAt(t, p.URL()), "x")
	got := peer.Acquiring(t, c, "x")
	peer.Until(t, func() bool {
		return query[bool](t, p.root, "SELECT EXISTS (SELECT FROM locks WHERE NOT granted OR objsubid = 2)")
	})
	require.NoError(t, db.PingContext(peer.Within(t, soon/2)), "the waiter has taken the last connection")
	require.NoError(t, l.Release(t.Context()))
	require.NoError(t, peer.Eventually(t, got).Release(t.Context()))
}

// A pool's hooks are called, and their failure is a one-line error.
func TestPool(t *testing.T) {
	p := database(t)
	good := peer.Must(pgx.ParseConfig(p.URL()))(t)
	broken := errors.New("broken\nhook")
	var connected *pgx.Conn
	pool := poolAt(t, p.UserURL("lockport", "rotated"), func(config *pgxpool.Config) {
		config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			c.Password = good.Password
			return nil
		}
		config.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
			connected = c
			return broken
		}
	})
	c := peer.Must(New(pool, Options{}, lockport.Logger(nil)))(t)
	peer.SaysOneLine(t, peer.ErrOf(c.TryAcquire(t.Context(), "x")), lockport.ErrUnavailable, "broken hook")
	require.True(t, connected.IsClosed())
	broken = nil
	require.NoError(t, peer.Holds(t, c, "x").Release(t.Context()))
	require.NoError(t, c.Close())
	require.NoError(t, pool.Ping(t.Context()), "Close closed the caller's pool")
	require.ErrorContains(t, peer.ErrOf(New(nil, Options{})), "the pool is nil")
}

// distant is a connection whose peer seems to be another machine.
type distant struct{ net.Conn }

func (distant) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5432} }

// untimed is a connection without deadlines, as through SSH.
type untimed struct{ net.Conn }

func (untimed) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// dialing makes a pool whose DialFunc wraps its connections.
func dialing(t *testing.T, rawURL string, wrap func(net.Conn) net.Conn) *pgxpool.Pool {
	return poolAt(t, rawURL, func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			socket, err := dial(ctx, network, addr)
			return wrap(socket), err
		}
	})
}

// Nothing could interrupt a session that listens on a connection without deadlines, or a login on one of a silent server. A password that goes to
// another machine without TLS is a notice.
func TestConnectionsWithoutDeadlines(t *testing.T) {
	p := database(t)
	proxy := peer.Proxy(t, p.Addr())
	proxy.Freeze()
	untime := func(c net.Conn) net.Conn { return untimed{c} }
	silent := peer.Must(NewBackend(dialing(t, peer.Via(t, p.URL(), proxy.Addr()), untime), Options{TTL: testTTL}))(t)
	theirs := peer.Must(NewDBBackend(stdlib.OpenDBFromPool(dialing(t, p.URL(), untime)), Options{TTL: testTTL}))(t)
	got := make(chan error, 2)
	go func() { _, err := silent.server.dial(t.Context(), "host/1/test", session.Events{}); got <- err }()
	go func() { _, err := theirs.Check(t.Context()); got <- err }()
	for range 2 {
		peer.SaysOneLine(t, peer.Eventually(t, got), driver.ErrRefused, "have no deadlines")
	}
	require.NoError(t, silent.Close())
	require.NoError(t, theirs.Close())
	pool := dialing(t, p.URL(), func(c net.Conn) net.Conn { return distant{c} })
	b := peer.Must(NewDBBackend(stdlib.OpenDBFromPool(pool), Options{}))(t)
	require.Contains(t, peer.IDs(peer.Must(b.Check(t.Context()))(t)), "password-in-the-clear")
	require.NoError(t, b.Close())
	require.NoError(t, pool.Ping(t.Context()), "a closed connection went back to the pool")
}
