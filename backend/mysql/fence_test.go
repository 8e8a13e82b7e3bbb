package mysql

import (
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

// TestTokenIsTheClockOrMore: a token is the row's plus one if the clock is behind that, and the clock if there is no row.
func TestTokenIsTheClockOrMore(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	admin := adminOf(t, m)
	a := dialFor(t, backendFor(t, m, Options{}))
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

	// A value above MaxToken is refused, and the lock released. The client library reads the greater one as a negative number.
	require.True(t, a.one(session.Free, key).OK)
	for _, last := range []uint64{driver.MaxToken, 1 << 63} {
		exec(t, admin, "UPDATE lockport_fence SET token=%d WHERE id='%s'", last, key)
		a.fails(a.one(session.Try, key), driver.ErrRefused)
		good := &session.Op{Kind: session.Try, Key: newKey()}
		require.NoError(t, a.do(&session.Op{Kind: session.Try, Key: key}, good))
		require.True(t, good.OK, "refused for another lock's token")
	}
	exec(t, admin, "DELETE FROM lockport_fence")
	dialFor(t, backendFor(t, m, Options{})).takes(key)
}

// TestOldRowsArePruned: on opening a session, and after some tokens. Recent rows stay.
func TestOldRowsArePruned(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	admin := adminOf(t, m)
	s := backendFor(t, m, Options{})
	a := dialFor(t, s)
	old, young := newKey(), newKey()
	a.takes(old)
	a.takes(young)
	count := func() int64 { return ask(t, admin, "SELECT COUNT(*) FROM lockport_fence") }
	age := func() {
		exec(t, admin, "UPDATE lockport_fence SET at=at-INTERVAL %d HOUR WHERE id='%s'", 7*24+1, old)
		exec(t, admin, "UPDATE lockport_fence SET at=at-INTERVAL %d HOUR WHERE id='%s'", 7*24-1, young)
	}
	age()
	require.EqualValues(t, 2, count())
	dialFor(t, s)
	require.EqualValues(t, 2, count(), "a held lock lost its row, by which Break counts a session's locks")
	require.NoError(t, a.do(&session.Op{Kind: session.Free, Key: old}, &session.Op{Kind: session.Free, Key: young}))
	dialFor(t, s)
	require.EqualValues(t, 1, count())

	a.takes(old)
	a.takes(young)
	a.one(session.Free, old)
	age()
	require.EqualValues(t, 2, count())
	a.drawn = pruneEvery - 2
	require.NoError(t, a.do(&session.Op{Kind: session.Try, Key: newKey()}, &session.Op{Kind: session.Try, Key: newKey()}))
	require.Zero(t, a.drawn)
	require.Zero(t, ask(t, admin, "SELECT COUNT(*) FROM lockport_fence WHERE id='%s'", old))
	exec(t, admin, "UPDATE lockport_fence SET token=4e15,at=at-INTERVAL 2 HOUR WHERE id='%s'", young) // as if the clock was set back
	a.one(session.Free, young)
	dialFor(t, s)
	require.Equal(t, uint64(4e15+1), a.takes(young))
}

// TestMixedFleet: another program calls GET_LOCK, in another database of the server.
func TestMixedFleet(t *testing.T) {
	m := servers.SharedMariaDB(t)
	name, admin := strings.ToLower(newName()), poolFor(t, strings.Replace(m.AdminDSN(), "/lockport", "/mysql", 1))
	admin.SetMaxOpenConns(1)
	c := newClient(t, m.DSN(), Options{ExactKeys: true})
	l := peer.Holds(t, c, name)
	require.Zero(t, ask(t, admin, "GET_LOCK('%s',0)", name))
	require.NoError(t, l.Release(t.Context()))
	require.EqualValues(t, 1, ask(t, admin, "GET_LOCK('%s',0)", name))
	require.ErrorIs(t, peer.ErrOf(c.TryAcquire(t.Context(), name)), lockport.ErrHeld)
}

// TestLockedRow: a transaction that keeps a token's row locked ends no other lock, however short the TTL.
func TestLockedRow(t *testing.T) {
	servers.SkipOnMySQL(t) // which cannot wait for less than a second
	m := servers.SharedMariaDB(t)
	c, name := newClient(t, m.DSN(), Options{TTL: time.Second}), newName()
	require.NoError(t, peer.Holds(t, c, name).Release(t.Context()))
	held := peer.Holds(t, c, newName())
	tx := peer.Must(adminOf(t, m).BeginTx(t.Context(), nil))(t)
	peer.Must(tx.ExecContext(t.Context(), "UPDATE lockport_fence SET at=0 WHERE name=?", name))(t)
	prunes := dialFor(t, backendFor(t, m, Options{TTL: time.Second}))
	prunes.drawn = pruneEvery
	require.NoError(t, prunes.Do(peer.Within(t, time.Second), []*session.Op{{Kind: session.Try, Key: newKey()}}))
	peer.SaysOneLine(t, peer.ErrOf(c.TryAcquire(t.Context(), name)), lockport.ErrUnavailable, "locked by another session")
	require.NoError(t, tx.Rollback())
	require.NoError(t, held.Err())
}

// TestDeadlockAmongNewRows: the server rolls back a token in favor of another session's. It is drawn again, but not for ever.
func TestDeadlockAmongNewRows(t *testing.T) {
	m := servers.SharedMariaDB(t)
	p, db := tapFor(t, m.DSN())
	locked := map[bool]error{true: &gomysql.MySQLError{Number: errRowLockWait}}
	p.on(func(query string) error { return locked[strings.HasPrefix(query, "DELETE")] })
	a, b := dialFor(t, backendOn(t, db, Options{})), dialFor(t, backendFor(t, m, Options{})) // no token is drawn yet
	deadlocks := drawAttempts - 1
	p.on(func(query string) error {
		if strings.HasPrefix(query, "INSERT") && deadlocks > 0 {
			deadlocks--
			return &gomysql.MySQLError{Number: errDeadlock, Message: "planted"}
		}
		return nil
	})
	key := newKey()
	require.Positive(t, a.takes(key))
	deadlocks = drawAttempts
	other := newKey()
	a.fails(a.one(session.Try, other), driver.ErrUnavailable)
	b.takes(other)
	b.finds(key)
}
