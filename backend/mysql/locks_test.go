package mysql

import (
	"context"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

// TestNoAnswerWhileATokenIsDrawn: the server has given the lock and falls silent. Who asked can leave, and the session does not wait for ever.
func TestNoAnswerWhileATokenIsDrawn(t *testing.T) {
	m := servers.SharedMariaDB(t)
	for name, c := range map[string]struct{ direct, wait bool }{
		"try": {true, false}, "wait": {true, true}, "try by the library": {false, false}, "wait by the library": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, dsn, _ := proxyFor(t, m)
			a := dialFor(t, serverFor(t, dsn, Options{TTL: 3 * time.Second}))
			a.direct = c.direct
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			a.sql = &meddled{a.sql, func(query string) error {
				if strings.HasPrefix(query, "INSERT") {
					proxy.Freeze()
					cancel()
				}
				return nil
			}}
			done := make(chan error, 1)
			op := &session.Op{Kind: session.Try, Key: newKey()}
			if c.wait {
				a.Wait(ctx, op, func(err error) { done <- err })
			} else {
				a.Do(ctx, []*session.Op{op}, func(err error) { done <- err })
			}
			require.Error(t, ctx.Err())
			require.Empty(t, done, "who asked has left")
			require.ErrorContains(t, a.result(done), "the server has not answered for 3s")
			a.ends()
		})
	}
}

// TestWaitThatTheServerEnds is an error, not an answer that the lock is held.
func TestWaitThatTheServerEnds(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	admin := adminOf(t, m)
	s := serverFor(t, m.DSN(), Options{})
	a, b := dialFor(t, s), dialFor(t, s)
	key := newKey()
	a.takes(key)
	for _, direct := range []bool{true, false} {
		b.direct = direct
		done := make(chan error, 1)
		op := &session.Op{Key: key}
		b.Wait(left(), op, func(err error) { done <- err })
		require.Eventually(t, func() bool { return blockedIn(t, admin) != 0 }, within, time.Millisecond)
		exec(t, admin, "KILL QUERY %d", b.thread)
		require.NoError(t, b.result(done))
		require.False(t, op.OK)
		require.ErrorIs(t, op.Err, driver.ErrUnavailable)
	}
	b.finds(key)
}

// TestNothingIsGivenBackUnheard: where a lock cannot be given back, only the end of the session is certain.
func TestNothingIsGivenBackUnheard(t *testing.T) {
	m := servers.SharedMariaDB(t)
	s := serverFor(t, m.DSN(), Options{})
	a, b := dialFor(t, s), dialFor(t, s)
	a.sql = &meddled{a.sql, func(string) error { return &gomysql.MySQLError{Number: errRowLockWait, Message: "planted"} }}
	key := newKey()
	require.Error(t, a.do(&session.Op{Kind: session.Try, Key: key}))
	a.ends()
	require.Eventually(t, func() bool { return b.one(session.Try, key).OK }, within, time.Millisecond)
}

// TestFailedListOfLocks: tries of which the server says that they fail leave the session and what it has alone; a lock that may have been freed ends it.
func TestFailedListOfLocks(t *testing.T) {
	m := servers.SharedMariaDB(t)
	s := serverFor(t, m.DSN(), Options{NoTokens: true, ExactKeys: true})
	a, b := dialFor(t, s), dialFor(t, s)
	held, other, third := newKey(), newKey(), newKey()
	a.takes(held)
	failed := &gomysql.MySQLError{Number: 1317, Message: "planted"}
	try, free := &session.Op{Kind: session.Try, Key: other, OK: true}, &session.Op{Kind: session.Free, Key: held}
	a.takes(other) // before the server said that it fails
	a.takes(third)
	require.NoError(t, a.refused([]*session.Op{try, {Kind: session.Try, Key: third}}, failed))
	require.False(t, try.OK)
	require.ErrorIs(t, try.Err, driver.ErrUnavailable)
	b.takes(other)
	b.takes(third)
	b.finds(held)
	require.ErrorIs(t, a.refused([]*session.Op{{Kind: session.Try, Key: newKey()}, free}, failed), failed)
	require.NoError(t, free.Err, "nothing is known")
}

// TestRowThatIsGone: a lock whose token cannot be read is given back, not taken without one.
func TestRowThatIsGone(t *testing.T) {
	m := servers.SharedMariaDB(t)
	admin := adminOf(t, m)
	s := serverFor(t, m.DSN(), Options{})
	a, b := dialFor(t, s), dialFor(t, s)
	one, two := &session.Op{Kind: session.Try, Key: newKey()}, &session.Op{Kind: session.Try, Key: newKey()}
	a.sql = &meddled{a.sql, func(query string) error {
		if strings.HasPrefix(query, "SELECT id,token") {
			exec(t, admin, "DELETE FROM lockport_fence WHERE id='%s'", two.Key)
		}
		return nil
	}}
	require.NoError(t, a.do(one, two))
	for _, op := range []*session.Op{one, two} {
		require.False(t, op.OK)
		require.ErrorIs(t, op.Err, driver.ErrUnavailable)
		b.takes(op.Key)
	}
}

// TestKeyThatIsRefused is answered, whoever asks, and whether he waits or not.
func TestKeyThatIsRefused(t *testing.T) {
	m := servers.SharedMariaDB(t)
	s := serverFor(t, m.DSN(), Options{NoTokens: true, ExactKeys: true})
	a := dialFor(t, s)
	s.foldsCase.Store(true) // as MySQL does
	for _, direct := range []bool{true, false} {
		a.direct = direct
		op := a.one(session.Try, "Nightly")
		require.False(t, op.OK)
		require.ErrorIs(t, op.Err, driver.ErrRefused)
		done := make(chan error, 1)
		op = &session.Op{Kind: session.Try, Key: "Nightly"}
		a.Wait(left(), op, func(err error) { done <- err })
		require.NoError(t, a.result(done))
		require.False(t, op.OK)
		require.ErrorIs(t, op.Err, driver.ErrRefused)
	}
	a.takes("nightly")
}

// TestAskedAsTheSessionEnds: whoever asks the library's way gets an answer, also at the moment of the end, and after.
func TestAskedAsTheSessionEnds(t *testing.T) {
	m := servers.SharedMariaDB(t)
	s := serverFor(t, m.DSN(), Options{NoTokens: true})
	for range 20 { // which of the two is seen first is chance
		a := dialFor(t, s)
		a.direct = false
		done := make(chan error, 1)
		a.Do(left(), []*session.Op{{Kind: session.Ping}}, func(error) {
			a.Close()
			a.Do(left(), []*session.Op{{Kind: session.Ping}}, func(err error) { done <- err })
		})
		require.ErrorIs(t, a.result(done), errClosed)
		a.ends()
		require.ErrorIs(t, a.do(&session.Op{Kind: session.Ping}), errClosed)
	}
}
