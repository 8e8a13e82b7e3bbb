package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

func TestMain(m *testing.M) { peer.Main(m, 0) }

const testTTL = 2 * time.Second

// soon bounds steps that take milliseconds.
const soon = 10 * time.Second

// place is a test's own database on the shared server: locks, notifications and tokens belong to a database.
type place struct {
	*servers.Postgres
	name string
	root *pgx.Conn // a superuser's connection
}

func (p place) in(rawURL string) string              { return strings.TrimSuffix(rawURL, "lockport") + p.name }
func (p place) URL() string                          { return p.in(p.Postgres.URL()) }
func (p place) AdminURL() string                     { return p.in(p.Postgres.AdminURL()) }
func (p place) UserURL(user, password string) string { return p.in(p.Postgres.UserURL(user, password)) }

// database creates a place for a test that runs beside others.
func database(t *testing.T) place {
	t.Parallel()
	return ownDatabase(t)
}

func ownDatabase(t testing.TB) place {
	p := place{Postgres: servers.SharedPostgres(t), name: "test" + strings.ToLower(rand.Text())}
	server := admin(t, p.Postgres.AdminURL())
	execute(t, server, "CREATE DATABASE "+p.name+" OWNER lockport")
	p.root = admin(t, p.AdminURL())
	execute(t, p.root, `CREATE VIEW locks AS SELECT * FROM pg_locks WHERE locktype = 'advisory' AND (objsubid = 1 OR mode = 'ShareLock')
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()); GRANT SELECT ON locks TO PUBLIC`) // without the markers
	t.Cleanup(func() {
		require.NoError(t, peer.ErrOf(server.Exec(context.Background(), "DROP DATABASE "+p.name+" WITH (FORCE)")))
	})
	return p
}

// backendAt opens a backend by URL, and closes it when the test ends.
func backendAt(t testing.TB, rawURL string) *Backend {
	b := peer.Opened(t, rawURL).(*Backend)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// poolAt makes a caller's pool, and closes it when the test ends.
func poolAt(t testing.TB, rawURL string, set func(*pgxpool.Config)) *pgxpool.Pool {
	config := peer.Must(pgxpool.ParseConfig(rawURL))(t)
	set(config)
	pool := peer.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	return pool
}

// dbAt makes a caller's DB, and closes it when the test ends.
func dbAt(t testing.TB, rawURL string, set func(*pgx.ConnConfig)) *sql.DB {
	config := peer.Must(pgx.ParseConfig(rawURL))(t)
	set(config)
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// dialed opens a session without the engine, and closes it when the test ends. It ignores events.
func dialed(t testing.TB, s *server) *conn {
	return dial(t, s, func(session.Key) {}, func(session.Key) {})
}

// talking is dialed with its events.
func talking(t testing.TB, s *server) (c *conn, freed, contended chan session.Key) {
	freed, contended = make(chan session.Key, 100), make(chan session.Key, 100)
	return dial(t, s, func(k session.Key) { freed <- k }, func(k session.Key) { contended <- k }), freed, contended
}

func dial(t testing.TB, s *server, freed, contended func(session.Key)) *conn {
	dialed := peer.Must(s.dial(peer.Within(t, soon), "host/1/test", session.Events{Freed: freed, Contended: contended}))(t)
	t.Cleanup(dialed.Close)
	return dialed.(*conn)
}

// waits begins a Wait; its result arrives on the channel.
func waits(t testing.TB, c *conn, op *session.Op) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.Wait(t.Context(), op) }()
	return done
}

// ask carries out ops; all must be answered.
func ask(t testing.TB, c *conn, ops ...*session.Op) {
	require.NoError(t, c.Do(t.Context(), ops))
	for _, op := range ops {
		require.NoError(t, op.Err)
	}
}

// value returns what a session answers to a query for one value.
func value[T any](t testing.TB, c *conn, sql string, args ...any) (v T) {
	require.NoError(t, c.link.use(func(p *pgx.Conn) error { return p.QueryRow(t.Context(), sql, append([]any{once}, args...)...).Scan(&v) }))
	return v
}

func op(kind session.Kind, key int64) *session.Op {
	return &session.Op{Kind: kind, Key: session.Key(strconv.FormatInt(key, 10)), Name: "n", Owner: "o"}
}

func reader(kind session.Kind, key int64) *session.Op {
	o := op(kind, key)
	o.Shared = true
	return o
}

// queues waits until a session waits for a lock in the server's queue.
func (p place) queues(t testing.TB) {
	t.Helper()
	peer.Until(t, func() bool { return query[bool](t, p.root, `SELECT EXISTS (SELECT FROM locks WHERE NOT granted)`) })
}

// admin is a superuser's connection.
func admin(t testing.TB, rawURL string) *pgx.Conn {
	conn := peer.Must(pgx.Connect(t.Context(), rawURL))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	require.NoError(t, peer.ErrOf(conn.Exec(t.Context(), sql, args...)))
}

func query[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) T {
	var v T
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}
