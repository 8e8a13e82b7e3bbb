package mysql

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

// TestTokenIsTheClockOrMore: the row's and one more where the clock is behind that, and the clock where there is no row.
func TestTokenIsTheClockOrMore(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	admin := adminOf(t, m)
	a := dialFor(t, serverFor(t, m.DSN(), Options{}))
	key := newKey()
	first := a.takes(key)
	require.InDelta(t, float64(time.Now().UnixMicro()), float64(first), float64(time.Minute.Microseconds()))
	again := func() uint64 {
		require.True(t, a.one(session.Free, key).OK)
		return a.takes(key)
	}
	exec(t, admin, "UPDATE lockport_fence SET token=4e15 WHERE id='%s'", key)
	require.Equal(t, uint64(4e15+1), again())
	require.Equal(t, uint64(4e15+2), again())
	exec(t, admin, "UPDATE lockport_fence SET token=5 WHERE id='%s'", key)
	require.Greater(t, again(), first, "the row came from a backup")
	exec(t, admin, "DELETE FROM lockport_fence")
	require.Greater(t, again(), first, "the row was pruned")
	exec(t, admin, "DROP TABLE lockport_fence")
	require.Greater(t, again(), first, "the table was lost")

	// One that is no token is refused, and the lock given back.
	exec(t, admin, "UPDATE lockport_fence SET token=%d WHERE id='%s'", uint64(driver.MaxToken), key)
	require.True(t, a.one(session.Free, key).OK)
	op := a.one(session.Try, key)
	require.False(t, op.OK)
	require.ErrorIs(t, op.Err, driver.ErrRefused)
	exec(t, admin, "DELETE FROM lockport_fence")
	dialFor(t, a.server).takes(key)
}

// TestOldRowsArePruned: when a session is opened, and after some tokens; those that were used lately stay.
func TestOldRowsArePruned(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	admin := adminOf(t, m)
	s := serverFor(t, m.DSN(), Options{})
	a := dialFor(t, s)
	old, young := newKey(), newKey()
	a.takes(old)
	a.takes(young)
	count := func() (n int) {
		require.NoError(t, admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM lockport_fence").Scan(&n))
		return n
	}
	age := func() {
		exec(t, admin, "UPDATE lockport_fence SET at=at-INTERVAL %d HOUR WHERE id='%s'", int(keepRows.Hours())+1, old)
		exec(t, admin, "UPDATE lockport_fence SET at=at-INTERVAL %d HOUR WHERE id='%s'", int(keepRows.Hours())-1, young)
	}
	age()
	require.Equal(t, 2, count())
	dialFor(t, s)
	require.Equal(t, 2, count(), "a lock that is held keeps its row, by which Break counts what a session has")
	a.one(session.Free, old)
	dialFor(t, s)
	require.Equal(t, 1, count())

	a.takes(old)
	a.one(session.Free, old)
	age()
	require.Equal(t, 2, count())
	for drawn := 0; drawn < pruneEvery; drawn += session.MaxBatch {
		var ops []*session.Op
		for range session.MaxBatch {
			ops = append(ops, &session.Op{Kind: session.Try, Key: newKey()})
		}
		require.NoError(t, a.do(ops...))
	}
	require.Eventually(t, func() bool {
		var left int
		require.NoError(t, admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM lockport_fence WHERE id=?", string(old)).Scan(&left))
		return left == 0
	}, within, time.Millisecond)
}

// TestAskedWhileRowsArePruned: who asks meanwhile is answered when that is over, by the same session.
func TestAskedWhileRowsArePruned(t *testing.T) {
	m := servers.SharedMariaDB(t)
	admin := adminOf(t, m)
	backup, err := admin.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = backup.Close() }()
	a := dialFor(t, serverFor(t, m.DSN(), Options{}))
	key := newKey()
	a.takes(key)
	locked := make(chan error, 1)
	a.sql = &meddled{a.sql, func(query string) error {
		if strings.HasPrefix(query, "DELETE") { // it takes as long as a statement waits for such a lock
			_, err := backup.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK")
			locked <- err
		}
		return nil
	}}
	a.drawn = pruneEvery
	a.takes(newKey())
	require.NoError(t, <-locked)
	require.Eventually(t, func() (waits bool) {
		require.NoError(t, admin.QueryRowContext(t.Context(),
			"SELECT COUNT(*)>0 FROM information_schema.PROCESSLIST WHERE ID=? AND INFO LIKE 'DELETE%'", a.thread).Scan(&waits))
		return waits
	}, within, time.Millisecond)
	require.True(t, a.one(session.Free, key).OK)
	_, err = backup.ExecContext(t.Context(), "UNLOCK TABLES")
	require.NoError(t, err)
	a.takes(key)
}

// TestManySessionsDrawNewTokensAtOnce: rows that are new to the table are where InnoDB sees deadlocks.
func TestManySessionsDrawNewTokensAtOnce(t *testing.T) {
	m := servers.SharedMariaDB(t)
	s := serverFor(t, m.DSN(), Options{})
	var all sync.WaitGroup
	for range 8 {
		a := dialFor(t, s)
		all.Go(func() {
			for range 40 {
				var ops []*session.Op
				for range 16 {
					ops = append(ops, &session.Op{Kind: session.Try, Key: newKey()})
				}
				done := make(chan error, 1)
				a.Do(t.Context(), ops, func(err error) { done <- err })
				if err := <-done; err != nil {
					t.Error(err)
				}
				for _, op := range ops {
					if !op.OK || op.Token == 0 {
						t.Error(op.OK, op.Token, op.Err)
					}
				}
			}
		})
	}
	all.Wait()
}

// TestDatabasesShareLocks: GET_LOCK is the server's, whatever database a client is in. Tokens of different tables rise together, by the clock.
func TestDatabasesShareLocks(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	exec(t, adminOf(t, m), "CREATE DATABASE other")
	cfg := configFor(t, m.AdminDSN())
	cfg.DBName = "other"
	a, b := newClient(t, m.DSN(), Options{}), newClient(t, cfg.FormatDSN(), Options{})
	name := newName()
	last := lockport.Token(0)
	for range 5 {
		for _, c := range []*lockport.Client{a, b} {
			l := acquire(t, c, name)
			_, err := map[*lockport.Client]*lockport.Client{a: b, b: a}[c].TryAcquire(t.Context(), name)
			require.ErrorIs(t, err, lockport.ErrHeld)
			require.Greater(t, token(t, l), last)
			last = token(t, l)
			require.NoError(t, l.Release(t.Context()))
		}
	}
}

// TestMixedFleet: another program calls GET_LOCK.
func TestMixedFleet(t *testing.T) {
	m := servers.SharedMariaDB(t)
	name := "nightly_" + strconv.FormatInt(time.Now().UnixNano(), 36)
	c := newClient(t, m.DSN(), Options{ExactKeys: true})
	l := acquire(t, c, name)
	other, err := adminOf(t, m).Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	var got int
	require.NoError(t, other.QueryRowContext(t.Context(), "SELECT GET_LOCK(?,0)", name).Scan(&got))
	require.Zero(t, got)
	require.NoError(t, l.Release(t.Context()))
	require.NoError(t, other.QueryRowContext(t.Context(), "SELECT GET_LOCK(?,0)", name).Scan(&got))
	require.Equal(t, 1, got)
	_, err = c.TryAcquire(t.Context(), name)
	require.ErrorIs(t, err, lockport.ErrHeld)
}

// TestDeadlockAmongNewRows: the server undoes a token for the sake of another session's. It is drawn again, not for ever.
func TestDeadlockAmongNewRows(t *testing.T) {
	m := servers.SharedMariaDB(t)
	s := serverFor(t, m.DSN(), Options{})
	a, b := dialFor(t, s), dialFor(t, s)
	deadlocks := drawAttempts - 1
	a.sql = &meddled{a.sql, func(string) error {
		if deadlocks--; deadlocks >= 0 {
			return &gomysql.MySQLError{Number: errDeadlock, Message: "planted"}
		}
		return nil
	}}
	key := newKey()
	require.Positive(t, a.takes(key))
	deadlocks = drawAttempts
	other := newKey()
	op := a.one(session.Try, other)
	require.False(t, op.OK)
	require.ErrorIs(t, op.Err, driver.ErrUnavailable)
	b.takes(other)
	b.finds(key)
}

// TestSessionSettings: whatever the server's own are.
func TestSessionSettings(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{
		"default-time-zone": "+05:00", "sql-mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "autocommit": "0", "max-statement-time": "1",
		"transaction-isolation": "READ-COMMITTED", "log-bin": "bin", "server-id": "1", "binlog-format": "STATEMENT",
	}})
	admin := adminOf(t, m)
	for _, set := range []string{"tx_read_only=1", "sql_select_limit=1", "sql_buffer_result=1", "init_connect='START TRANSACTION'"} {
		exec(t, admin, "SET GLOBAL %s", set)
	}
	a := dialFor(t, serverFor(t, m.DSN(), Options{TTL: 3 * time.Second}))
	row, err := a.row("SELECT @@time_zone,@@sql_mode,@@autocommit,@@max_statement_time,@@wait_timeout")
	require.NoError(t, err)
	require.Equal(t, "+00:00", row[0])
	require.Equal(t, "STRICT_ALL_TABLES", row[1])
	require.EqualValues(t, 1, row[2])
	require.EqualValues(t, 0, row[3])
	require.EqualValues(t, 3, row[4])
	one, two := &session.Op{Kind: session.Try, Key: newKey()}, &session.Op{Kind: session.Try, Key: newKey()}
	require.NoError(t, a.do(one, two))
	require.True(t, one.OK && two.OK, "%v, %v", one.Err, two.Err)

	// Each lock was taken once, and its token committed.
	require.True(t, a.one(session.Free, one.Key).OK)
	b := dialFor(t, a.server)
	require.Greater(t, b.takes(one.Key), one.Token)
	var rows int
	require.NoError(t, admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM lockport_fence").Scan(&rows))
	require.Equal(t, 2, rows)
}
