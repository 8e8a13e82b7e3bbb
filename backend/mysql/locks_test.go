package mysql

import (
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

// TestWaitThatTheServerEnds: that is an error, not the answer that the lock is held.
func TestWaitThatTheServerEnds(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	admin, backend := adminOf(t, m), backendFor(t, m, Options{})
	a, b := dialFor(t, backend), dialFor(t, backend)
	key := newKey()
	a.takes(key)
	op, done, _ := b.waits(key)
	require.Eventually(t, func() bool { return blockedIn(t, admin) != 0 }, within, time.Millisecond)
	exec(t, admin, "KILL QUERY %d", b.thread)
	require.NoError(t, result(t, done))
	require.False(t, op.OK)
	require.ErrorIs(t, op.Err, driver.ErrUnavailable)
	b.finds(key)
}

// TestFailures: the results of ops whose statement fails at the server after some of them ran.
func TestFailures(t *testing.T) {
	m := servers.SharedMariaDB(t)
	p, db := tapFor(t, m.DSN())
	other := dialFor(t, backendFor(t, m, Options{}))
	try := func() *session.Op { return &session.Op{Kind: session.Try, Key: newKey()} }
	for name, c := range map[string]struct {
		fails string // prefix of the statements that fail
		ends  bool   // the session
	}{
		"locks":                       {fails: "SELECT CONCAT", ends: true},
		"tokens":                      {fails: "INSERT"},
		"the tokens' rows":            {fails: "SELECT id,token"},
		"locks that are not released": {fails: "", ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			p.on(nil)
			a := dialFor(t, backendOn(t, db, Options{}))
			held := newKey()
			a.takes(held)
			ops := []*session.Op{try(), try()}
			p.on(func(query string) error {
				if !strings.HasPrefix(query, c.fails) {
					return nil
				}
				return done{&gomysql.MySQLError{Number: errRowLockWait, Message: "planted"}}
			})
			err := a.do(ops...)
			p.on(nil)
			if c.ends {
				require.Error(t, err)
				a.Close()
			} else {
				require.NoError(t, err)
				other.finds(held)
				for _, op := range ops {
					require.False(t, op.OK)
					require.ErrorIs(t, op.Err, driver.ErrUnavailable)
				}
			}
			for _, op := range ops {
				require.Eventually(t, func() bool { return other.one(session.Try, op.Key).OK }, within, time.Millisecond)
			}
		})
	}
}

// TestPermitThatFails: a permit whose token cannot be drawn is released.
func TestPermitThatFails(t *testing.T) {
	m := servers.SharedMariaDB(t)
	p, db := tapFor(t, m.DSN())
	a, b := dialFor(t, backendOn(t, db, Options{})), dialFor(t, backendFor(t, m, Options{}))
	for _, fails := range []string{"SELECT CASE", "INSERT", "INSERT INTO `lockport_fence` (id,token,name,owner,session,marker,at) VALUES ('b"} {
		slot := "b" + newKey()[1:] // which the last statement names
		op := &session.Op{Kind: session.Try, Key: "a" + newKey()[1:], Slots: []session.Key{slot, newKey()}}
		p.on(func(query string) error {
			if !strings.HasPrefix(query, fails) {
				return nil
			}
			return done{&gomysql.MySQLError{Number: errRowLockWait, Message: "planted"}}
		})
		require.NoError(t, a.do(op))
		p.on(nil)
		require.False(t, op.OK, fails)
		require.ErrorIs(t, op.Err, driver.ErrUnavailable)
		b.takes(slot)
	}
}

// TestKeyThatIsRefused: a refused key gets an answer, from Wait too.
func TestKeyThatIsRefused(t *testing.T) {
	b := backendFor(t, servers.SharedMariaDB(t), Options{NoTokens: true, ExactKeys: true})
	a := dialFor(t, b)
	require.NoError(t, a.one(session.Try, "Weekly").Err, "MariaDB's names have case")
	b.server.foldsCase.Store(true) // as MySQL does
	op := a.one(session.Try, "Nightly")
	require.False(t, op.OK)
	require.ErrorIs(t, op.Err, driver.ErrRefused)
	op, done, _ := a.waits("Nightly")
	require.NoError(t, result(t, done))
	require.False(t, op.OK)
	require.ErrorIs(t, op.Err, driver.ErrRefused)
	a.takes("nightly")
}
