package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"net/url"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

// within is far more than what is told at once takes on a busy machine.
const within = 5 * time.Second

func newName() string { return "test-" + rand.Text() }

// newKey is a key like no other.
func newKey() session.Key {
	key, err := layout{prefix: defaultPrefix}.key(newName())
	if err != nil {
		panic(err)
	}
	return key
}

// configFor is how a server is reached.
func configFor(t testing.TB, dsn string) *gomysql.Config {
	t.Helper()
	cfg, err := gomysql.ParseDSN(dsn)
	require.NoError(t, err)
	return cfg
}

// serverFor makes a server with options.
func serverFor(t testing.TB, dsn string, o Options) *server {
	t.Helper()
	s, err := newServer(configFor(t, dsn), o)
	require.NoError(t, err)
	return s
}

// asked is a session that a test asks, and what it has told.
type asked struct {
	*conn
	t     testing.TB
	ended chan error
}

// dialFor opens a session for t.
func dialFor(t testing.TB, s *server) *asked {
	t.Helper()
	a := &asked{t: t, ended: make(chan error, 1)}
	c, _, err := s.dial(t.Context(), "host:1:label", func(err error) { a.ended <- err })
	require.NoError(t, err)
	a.conn = c
	t.Cleanup(a.Close)
	return a
}

// do carries out ops and returns why the connection has ended.
func (a *asked) do(ops ...*session.Op) error {
	a.t.Helper()
	done := make(chan error, 1)
	a.Do(context.Background(), ops, func(err error) { done <- err })
	return a.result(done)
}

func (a *asked) result(done <-chan error) error {
	a.t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(within):
		a.t.Fatal("done was not called")
		return nil
	}
}

// one carries out one op, which has an answer.
func (a *asked) one(kind session.Kind, key session.Key) *session.Op {
	a.t.Helper()
	op := &session.Op{Kind: kind, Key: key, Name: string(key), Owner: "owner"}
	require.NoError(a.t, a.do(op))
	return op
}

// takes requires that a takes key, and returns the token.
func (a *asked) takes(key session.Key) uint64 {
	a.t.Helper()
	op := a.one(session.Try, key)
	require.NoError(a.t, op.Err)
	require.True(a.t, op.OK)
	return op.Token
}

// finds requires that a finds key taken.
func (a *asked) finds(key session.Key) {
	a.t.Helper()
	op := a.one(session.Try, key)
	require.NoError(a.t, op.Err)
	require.False(a.t, op.OK)
	require.Zero(a.t, op.Token)
}

// ends requires that a is told of its end.
func (a *asked) ends() error {
	a.t.Helper()
	select {
	case err := <-a.ended:
		return err
	case <-time.After(within):
		a.t.Fatal("the end of the connection was not told")
		return nil
	}
}

// adminOf is a pool of a user who may do everything.
func adminOf(t testing.TB, m *servers.MariaDB) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", m.AdminDSN())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), fmt.Sprintf(query, args...))
	require.NoError(t, err)
}

// proxyFor is a proxy before a server, and the server's DSN and URL through it.
func proxyFor(t testing.TB, m *servers.MariaDB) (proxy *faultproxy.Proxy, dsn, rawURL string) {
	t.Helper()
	proxy, err := faultproxy.New(m.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	cfg := configFor(t, m.DSN())
	cfg.Addr = proxy.Addr()
	u, err := url.Parse(m.URL())
	require.NoError(t, err)
	u.Host = proxy.Addr()
	return proxy, cfg.FormatDSN(), u.String()
}

// newOwner is an owner id like no other.
func newOwner() string { return fmt.Sprintf("%032x:host:1:test", rand.Text()[:16]) }

// left is a context that has ended: who asks with it does not stay for the answer.
func left() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// meddled is a connection on which before is called first, with each statement; its error, if any, is the answer.
type meddled struct {
	sqlConn
	before func(query string) error
}

func (m *meddled) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if err := m.before(query); err != nil {
		return nil, err
	}
	return m.sqlConn.ExecContext(ctx, query, args)
}

func (m *meddled) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if err := m.before(query); err != nil {
		return nil, err
	}
	return m.sqlConn.QueryContext(ctx, query, args)
}

// testTTL is that of sessions that are to end soon.
const testTTL = 2 * time.Second

func newBackend(t testing.TB, m *servers.MariaDB, o Options) *Backend {
	backend, err := NewBackend(configFor(t, m.DSN()), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, backend.Close()) })
	return backend
}
