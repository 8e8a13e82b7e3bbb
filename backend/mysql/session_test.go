package mysql

import (
	"slices"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

func TestConnDoesManyAtOnceAndInOrder(t *testing.T) {
	b := backendFor(t, servers.SharedMariaDB(t), Options{})
	one, two := dialFor(t, b), dialFor(t, b)
	held, again := newKey(), newKey()
	two.takes(held)
	before := one.takes(again)
	ops := []*session.Op{{Kind: session.Try, Key: held}, {Kind: session.Free, Key: again}, {Kind: session.Ping}, {Kind: session.Try, Key: again}}
	require.False(t, two.one(session.Free, again).OK, "released a key that it did not have")
	for len(ops) < session.MaxBatch {
		ops = append(ops, &session.Op{Kind: session.Try, Key: newKey(), Name: "it's\x00 ünusual", Owner: `\"`})
	}
	require.NoError(t, one.do(ops...))
	require.False(t, ops[0].OK)
	require.Zero(t, ops[0].Token)
	require.True(t, ops[1].OK)
	require.Greater(t, ops[3].Token, before)
	for _, op := range ops[3:] {
		require.NoError(t, op.Err)
		require.True(t, op.OK)
		require.Positive(t, op.Token)
		two.finds(op.Key)
		op.Kind, op.OK = session.Free, false
	}
	require.NoError(t, one.do(ops[3:]...))
	require.False(t, slices.ContainsFunc(ops[3:], func(op *session.Op) bool { return !op.OK }))
	require.Greater(t, two.takes(again), ops[3].Token)
}

// TestConnSilence: the server keeps a silent session for at least its TTL, and not for much longer.
func TestConnSilence(t *testing.T) {
	for handling, silence := range map[string]int64{"one-thread-per-connection": 1, "pool-of-threads": 2} { // the pool's clock may be late
		t.Run(handling, func(t *testing.T) {
			t.Parallel()
			if silence == 2 {
				servers.SkipOnMySQL(t)
			}
			m := servers.NeedMariaDB(t, servers.MariaDBOptions{Config: []string{"thread_handling=" + handling}})
			b, admin := backendFor(t, m, Options{TTL: time.Second}), adminOf(t, m)
			for i := range 5 { // at different phases of the server's ticks
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				a := dialFor(t, b)
				require.Equal(t, silence, peer.Must(a.row(t.Context(), "SELECT @@wait_timeout"))(t).Number(0))
				sent := time.Now()
				a.one(session.Ping, "")
				require.Eventually(t, func() bool { return ask(t, admin, "IS_USED_LOCK('%s')", a.marker) == 0 }, peer.Soon, time.Millisecond)
				require.GreaterOrEqual(t, time.Since(sent), time.Second)
			}
		})
	}
}

func TestConnEndsAnEarlierSession(t *testing.T) {
	m := servers.SharedMariaDB(t)
	proxy, cfg := peer.Proxy(t, m.Addr()), configFor(t, m.DSN())
	cfg.Addr = proxy.Addr()
	tap, db := tapFor(t, m.DSN())
	near := backendOn(t, db, Options{})
	far := backendOn(t, poolFor(t, cfg.FormatDSN()), Options{})
	gone, b := dialFor(t, far), dialFor(t, near)
	key := newKey()
	gone.takes(key)
	proxy.Freeze() // the server does not see what follows
	gone.Close()
	b.finds(key)
	end := func(earlier *conn) *session.Op {
		op := &session.Op{Kind: session.End, Earlier: earlier}
		require.Eventually(t, func() bool { require.NoError(t, b.do(op)); return op.OK || op.Err != nil }, peer.Soon, time.Millisecond)
		return op
	}
	tap.on(func(query string) error {
		return map[bool]error{true: &gomysql.MySQLError{Number: 1095}}[strings.HasPrefix(query, "KILL")]
	})
	require.ErrorContains(t, end(gone.conn).Err, "CONNECTION ADMIN", "a session that may not end another one goes on")
	tap.on(nil)
	require.True(t, end(gone.conn).OK)
	b.takes(key)
	require.True(t, end(gone.conn).OK)
	// Another session with the same id is not taken for it.
	other := dialFor(t, near)
	require.True(t, end(&conn{thread: other.thread, marker: markerPrefix + "none"}).OK)
	require.ErrorContains(t, end(&conn{thread: other.thread, marker: b.marker}).Err, "belongs to session")
	other.one(session.Ping, "")
	// A waiting session.
	proxy.Restore()
	waits := dialFor(t, far)
	waits.waits(key)
	require.Eventually(t, func() bool { return blockedIn(t, adminOf(t, m)) == waits.thread }, peer.Soon, time.Millisecond)
	proxy.Freeze()
	require.True(t, end(waits.conn).OK)
	b.one(session.Free, key)
	other.takes(key)
}

// TestSessionSettings: they override the server's and the pool's, and what an earlier user of the connection left.
func TestSessionSettings(t *testing.T) {
	servers.SkipOnMySQL(t) // its settings have other names
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{Config: []string{
		"default-time-zone=+05:00", "sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH", "autocommit=0", "max-statement-time=1",
		"transaction-isolation=READ-COMMITTED", "log-bin=bin", "server-id=1", "binlog-format=STATEMENT",
	}})
	admin := adminOf(t, m)
	for _, set := range []string{"wait_timeout=2", "tx_read_only=1", "sql_select_limit=1", "max_join_size=1", "sql_buffer_result=1", "completion_type='RELEASE'", "init_connect='START TRANSACTION'"} {
		exec(t, admin, "SET GLOBAL %s", set)
	}
	exec(t, admin, "CREATE TABLE lockport.other (id INT)")
	db := poolFor(t, m.DSN()+"?parseTime=true&clientFoundRows=true&columnsWithAlias=true&collation=latin1_german1_ci&time_zone=%27-03%3A00%27")
	db.SetMaxOpenConns(3)
	one, two := &session.Op{Kind: session.Try, Key: newKey()}, &session.Op{Kind: session.Try, Key: newKey()}
	leaveOpen := func() {
		exec(t, db, "SET SESSION tx_read_only=0,SESSION tx_isolation='REPEATABLE-READ'")
		exec(t, db, "ROLLBACK AND NO CHAIN NO RELEASE")
		exec(t, db, "LOCK TABLES other WRITE")
		exec(t, db, "INSERT INTO other VALUES (1)") // autocommit=0 leaves the transaction open
	}
	leaveOpen()
	exec(t, db, "DO GET_LOCK('%s',0)", one.Key) // which is re-entrant
	a := dialFor(t, backendOn(t, db, Options{TTL: 3 * time.Second}))
	r := peer.Must(a.row(t.Context(), "SELECT @@time_zone,@@sql_mode,@@autocommit,@@max_statement_time=0,@@wait_timeout,@@lock_wait_timeout,@@innodb_lock_wait_timeout"))(t)
	for i, want := range []string{"+00:00", "STRICT_ALL_TABLES", "1", "1", "3", "1", "1"} {
		require.Equal(t, want, r.Text(i))
	}
	require.NoError(t, a.do(one, two))
	require.True(t, one.OK && two.OK, "%v, %v", one.Err, two.Err)

	leaveOpen()
	require.NoError(t, a.server.look(t.Context(), func(l session.Looker) error {
		require.Len(t, peer.Must(l.(looker).rows(t.Context(), "SELECT 1 UNION SELECT 2"))(t), 2)
		holders, _, err := l.Find(t.Context(), "", one.Key)
		require.False(t, holders[0].Foreign, "its marker was not recognized")
		require.WithinDuration(t, time.Now(), holders[0].Since, time.Minute)
		return err
	}))

	// Each lock was taken once, and its token was committed.
	require.True(t, a.one(session.Free, one.Key).OK)
	require.Zero(t, ask(t, admin, "IS_USED_LOCK('%s')", one.Key))
	b := dialFor(t, backendOn(t, db, Options{TTL: 3 * time.Second}))
	require.Greater(t, b.takes(one.Key), one.Token)
	require.EqualValues(t, 2, ask(t, admin, "SELECT COUNT(*) FROM lockport_fence"))
	require.Zero(t, ask(t, admin, "SELECT COUNT(*) FROM other"))
}

// TestConnectionsOfSessionsAreClosed: in the pool, others would find their locks.
func TestConnectionsOfSessionsAreClosed(t *testing.T) {
	m := servers.SharedMariaDB(t)
	p, db := tapFor(t, m.DSN())
	admin := adminOf(t, m)
	db.SetMaxOpenConns(1)
	a := dialFor(t, backendOn(t, db, Options{}))
	key := newKey()
	a.takes(key)
	a.Close()
	require.NotEqual(t, a.thread, ask(t, db, "CONNECTION_ID()"))
	require.Eventually(t, func() bool { return ask(t, admin, "IS_USED_LOCK('%s')", key) == 0 }, peer.Soon, time.Millisecond)

	// A refused connection is closed too.
	for _, first := range []error{nil, errProxy} {
		p.on(func(string) error { return first })
		require.Error(t, peer.ErrOf(backendOn(t, db, Options{Table: "none.none"}).server.dial(t.Context(), "", session.Events{})))
		require.Zero(t, db.Stats().OpenConnections)
	}
}

// TestProxiesThatShareSessions: such proxies are refused. If they start sharing later, a ping fails.
func TestProxiesThatShareSessions(t *testing.T) {
	m := servers.SharedMariaDB(t)
	p, plain := tapFor(t, m.DSN())
	dialFor(t, backendOn(t, plain, Options{})) // creates the table
	p.on(nil)
	dialFor(t, backendOn(t, plain, Options{}))
	setUp := len(p.statements())
	second := slices.IndexFunc(p.statements(), func(query string) bool { return strings.HasPrefix(query, "SELECT CONNECTION_ID()") })
	for from := range setUp + 1 {
		proxy, db := tapFor(t, m.DSN())
		proxy.shared = from + 1
		c, err := backendOn(t, db, Options{}).server.dial(t.Context(), "", session.Events{})
		if err != nil {
			require.Less(t, from, setUp)
			continue
		}
		require.Greater(t, from, second, "a session that is two was accepted")
		defer c.Close()
		for n := 0; n < 2 && err == nil; n++ {
			err = c.Do(t.Context(), []*session.Op{{Kind: session.Ping}})
		}
		require.ErrorContains(t, err, "another session answers", "from statement %d of %d on", from, setUp)
	}
	require.ErrorContains(t, errProxy, "as ProxySQL does")
}
