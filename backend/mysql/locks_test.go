package mysql

import (
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

// TestWaitThatTheServerEnds: that is an error, not the answer that the lock is held.
func TestWaitThatTheServerEnds(t *testing.T) {
	servers.SkipOnMySQL(t) // there, the statement fails
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	admin, backend := adminOf(t, m), backendFor(t, m, Options{})
	a, b := dialFor(t, backend), dialFor(t, backend)
	key := newKey()
	a.takes(key)
	op, done := b.waits(key)
	require.Eventually(t, func() bool { return blockedIn(t, admin) != 0 }, peer.Soon, time.Millisecond)
	exec(t, admin, "KILL QUERY %d", b.thread)
	require.NoError(t, peer.Eventually(t, done))
	b.fails(op, driver.ErrUnavailable)
	b.finds(key)
}

// TestFailures: the results of ops whose statement fails at the server after some of them ran.
func TestFailures(t *testing.T) {
	m := servers.SharedMariaDB(t)
	p, db := tapFor(t, m.DSN())
	other := dialFor(t, backendFor(t, m, Options{}))
	for name, c := range map[string]struct {
		fails  string // prefix of the statements that fail
		ends   bool   // the session
		permit bool   // the only op is one for a permit
	}{
		"locks":                              {fails: "SELECT CONCAT", ends: true},
		"tokens":                             {fails: "INSERT"},
		"the tokens' rows":                   {fails: "SELECT id,token"},
		"locks that are not released":        {fails: "INSERT", ends: true},
		"permits":                            {fails: "SELECT CASE", permit: true},
		"the token of a permit":              {fails: "INSERT", permit: true},
		"the token in the row of the permit": {fails: "INSERT INTO `lockport_fence` (id,token,name,owner,session,marker,at) VALUES ('b", permit: true},
	} {
		t.Run(name, func(t *testing.T) {
			p.on(nil)
			a := dialFor(t, backendOn(t, db, Options{}))
			held := newKey()
			a.takes(held)
			ops := []*session.Op{{Kind: session.Try, Key: newKey()}, {Kind: session.Try, Key: newKey()}}
			if c.permit {
				ops = ops[:1]
				ops[0].Key = "a" + ops[0].Key[1:]
				ops[0].Slots = []session.Key{"b" + newKey()[1:], newKey()} // the last row's statement names the first slot
			}
			p.on(func(query string) error {
				if !strings.HasPrefix(query, c.fails) && !(c.ends && strings.HasPrefix(query, "DO")) {
					return nil
				}
				return &gomysql.MySQLError{Number: errRowLockWait, Message: "planted"}
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
					a.fails(op, driver.ErrUnavailable)
				}
			}
			for _, op := range ops {
				for _, key := range append(op.Slots, op.Key) {
					require.Eventually(t, func() bool { return other.one(session.Try, key).OK }, peer.Soon, time.Millisecond)
				}
			}
		})
	}
}

// TestKeyThatIsRefused: a refused key gets an answer, from Wait too.
func TestKeyThatIsRefused(t *testing.T) {
	b := backendFor(t, servers.SharedMariaDB(t), Options{NoTokens: true, ExactKeys: true})
	require.ErrorIs(t, peer.ErrOf(b.TryAcquire(t.Context(), request(b, "it's"))), driver.ErrRefused)
	a := dialFor(t, b)
	b.server.foldsCase.Store(false) // as on MariaDB
	require.NoError(t, a.one(session.Try, "Weekly").Err)
	b.server.foldsCase.Store(true) // as on MySQL
	a.fails(a.one(session.Try, "Nightly"), driver.ErrRefused)
	op, done := a.waits("Nightly")
	require.NoError(t, peer.Eventually(t, done))
	a.fails(op, driver.ErrRefused)
	a.takes("nightly")
}
