package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

func newName() string { return "test-" + rand.Text() }

func layoutOf(o Options) session.Layout {
	l, _ := o.prepare() // after an error it makes no key
	return l
}

func keyOf(name string) session.Key {
	key, _ := layoutOf(Options{}).Key(name) // fails only with exact keys
	return key
}

func newKey() session.Key { return keyOf(newName()) }

func configFor(t testing.TB, dsn string) *gomysql.Config {
	cfg := peer.Must(gomysql.ParseDSN(dsn))(t)
	cfg.Logger = &gomysql.NopLogger{}
	return cfg
}

// tap is a pool whose connections, with the minimum that database/sql requires of a driver, call before for each statement. Its error, if any, is the
// answer, to a query after its execution.
type tap struct {
	sqldriver.Connector
	mu     sync.Mutex
	before func(query string) error
	said   []string
	shared int // if not 0: from this statement of a connection on, another session gets every other one, as behind some proxies
}

// tapFor returns a tap on connections to a server, and its pool.
func tapFor(t testing.TB, dsn string) (*tap, *sql.DB) {
	p := &tap{Connector: peer.Must(gomysql.NewConnector(configFor(t, dsn)))(t)}
	db := sql.OpenDB(p)
	t.Cleanup(func() { _ = db.Close() })
	return p, db
}

// on calls f before each statement from now on.
func (p *tap) on(f func(query string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.said = f, nil
}

// statements returns those since on was called.
func (p *tap) statements() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

func (p *tap) tell(query string) error {
	p.mu.Lock()
	p.said = append(p.said, query)
	before := p.before
	p.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(query)
}

func (p *tap) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := p.Connector.Connect(ctx)
	if err != nil || p.shared == 0 {
		return &tapped{Conn: c, tap: p}, err
	}
	other, err := p.Connector.Connect(ctx)
	return &tapped{Conn: c, tap: p, other: other}, err
}

type tapped struct {
	sqldriver.Conn
	tap   *tap
	other sqldriver.Conn // with tap.shared
	sent  int            // statements so far
}

// next is the session of the next statement.
func (c *tapped) next() sqldriver.Conn {
	if c.sent++; c.other != nil && c.sent >= c.tap.shared && (c.sent-c.tap.shared)%2 == 0 {
		return c.other
	}
	return c.Conn
}

func (c *tapped) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if err := c.tap.tell(query); err != nil {
		return nil, err
	}
	return c.next().(sqldriver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *tapped) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	failed := c.tap.tell(query)
	rows, err := c.next().(sqldriver.QueryerContext).QueryContext(ctx, query, args)
	if failed == nil || err != nil {
		return rows, err
	}
	return nil, errors.Join(failed, rows.Close())
}

func poolFor(t testing.TB, dsn string) *sql.DB {
	_, db := tapFor(t, dsn)
	return db
}

func backendOn(t testing.TB, db *sql.DB, o Options) *Backend {
	b := peer.Must(NewBackend(db, o))(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func backendFor(t testing.TB, m *servers.MariaDB, o Options) *Backend {
	return backendOn(t, poolFor(t, m.DSN()), o)
}

// asked is a session driven by a test.
type asked struct {
	*conn
	t testing.TB
}

func dialFor(t testing.TB, b *Backend) *asked {
	c := peer.Must(b.server.dial(t.Context(), "host:1:label", session.Events{}))(t)
	t.Cleanup(c.Close)
	return &asked{c.(*conn), t}
}

// do carries out ops, and returns the error that ends the session.
func (a *asked) do(ops ...*session.Op) error { return a.Do(peer.Within(a.t, peer.Soon), ops) }

// one carries out one op, and requires an answer.
func (a *asked) one(kind session.Kind, key session.Key) *session.Op {
	op := &session.Op{Kind: kind, Key: key, Name: string(key), Owner: "owner"}
	require.NoError(a.t, a.do(op))
	return op
}

// takes requires that a takes key, and returns the token.
func (a *asked) takes(key session.Key) uint64 {
	op := a.one(session.Try, key)
	require.NoError(a.t, op.Err)
	require.True(a.t, op.OK)
	return op.Token
}

// finds requires that key is taken by another session.
func (a *asked) finds(key session.Key) {
	op := a.one(session.Try, key)
	require.Equal(a.t, &session.Op{Kind: op.Kind, Key: key, Name: op.Name, Owner: op.Owner}, op)
}

// fails requires that an op took nothing, because of an error of class.
func (a *asked) fails(op *session.Op, class error) {
	require.False(a.t, op.OK)
	require.ErrorIs(a.t, op.Err, class)
}

// waits waits for key; its result arrives on done.
func (a *asked) waits(key session.Key) (op *session.Op, done <-chan error) {
	op, ended := &session.Op{Key: key}, make(chan error, 1)
	go func() { ended <- a.Wait(a.t.Context(), op) }()
	return op, ended
}

func adminOf(t testing.TB, m *servers.MariaDB) *sql.DB { return poolFor(t, m.AdminDSN()) }

func exec(t testing.TB, db *sql.DB, query string, args ...any) {
	require.NoError(t, peer.ErrOf(db.ExecContext(t.Context(), fmt.Sprintf(query, args...))))
}

// ask queries one number; NULL and no row are 0.
func ask(t testing.TB, db *sql.DB, query string, args ...any) (n int64) {
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COALESCE(("+fmt.Sprintf(query, args...)+"),0)").Scan(&n))
	return n
}

// holderOf returns the session that has a lock; 0: none.
func holderOf(t testing.TB, m *servers.MariaDB, name string) int64 {
	return ask(t, adminOf(t, m), "IS_USED_LOCK('%s')", keyOf(name))
}

// blockedIn returns a session that waits for a lock; 0: none.
func blockedIn(t testing.TB, admin *sql.DB) int64 {
	return ask(t, admin, "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE='User lock' LIMIT 1")
}

func TestMain(m *testing.M) { peer.Main(m, 0) }

// isOp classifies requests by their statements.
var isOp = peer.Ops{
	conformance.OpAcquire: peer.With("SELECT CONCAT(COALESCE(IF(" + isReadOnly + ",3,GET_LOCK("),
	conformance.OpRenew:   regexp.MustCompile(regexp.QuoteMeta("SELECT CONCAT(COALESCE(IF("+isReadOnly+",3,IS_USED_LOCK('"+markerPrefix) + `.*=CONNECTION_ID\(\)`).Match,
	conformance.OpRelease: peer.With("SELECT CONCAT(COALESCE(RELEASE_LOCK("),
}.Is

// openBare opens a backend without Inspect, Break and Check.
func openBare(ctx context.Context, rawURL string) (driver.Backend, error) {
	b, err := peer.Open(ctx, rawURL)
	whole, _ := b.(*Backend) // nil after an error
	return struct {
		driver.Backend
		driver.Waiter
		driver.BatchRenewer
	}{whole, whole, whole}, err
}
