package postgres

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/session"
)

func TestConn(t *testing.T) {
	t.Parallel()
	t.Run("URL", func(t *testing.T) {
		t.Parallel()
		testConn(t, serverAt(t, with(t, database(t).URL(), "ttl", testTTL.String())))
	})
	t.Run("sql.DB", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("pgx", database(t).URL())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		b, err := NewDBBackend(db, Options{TTL: testTTL})
		require.NoError(t, err)
		testConn(t, b.server)
	})
}

func testConn(t *testing.T, s *server) {
	a := dialled(t, s)
	b := dialled(t, s)
	require.NotEqual(t, a.ID(), b.ID())

	first, second, held := op(session.Try, 1), op(session.Try, -2), op(session.Try, 1)
	ask(t, a, first, op(session.Ping, 0), second)
	require.True(t, first.OK && second.OK)
	require.Greater(t, second.Token, first.Token)
	ask(t, b, held)
	require.False(t, held.OK)

	// Who frees a key tells those who await it, and nobody else.
	await := op(session.Await, 1)
	ask(t, b, await, op(session.Await, 1))
	require.True(t, await.OK)
	require.Equal(t, session.Key("1"), receive(t, a.contended))
	nothing(t, b.contended)
	freed := op(session.Free, 1)
	ask(t, a, freed, op(session.Free, -2))
	require.True(t, freed.OK)
	require.Equal(t, session.Key("1"), receive(t, b.freed))
	ask(t, b, held)
	require.True(t, held.OK)
	require.Greater(t, held.Token, second.Token)
	again := op(session.Free, 1)
	ask(t, a, again)
	require.False(t, again.OK, "another has it")
	ask(t, b, op(session.Leave, 1), op(session.Leave, 1), op(session.Free, 1))
	ask(t, a, op(session.Try, 1))
	ask(t, a, op(session.Free, 1))
	nothing(t, b.freed)
	nothing(t, a.freed)

	// A wait ends with the grant.
	ask(t, a, op(session.Try, 3))
	wait := op(session.Try, 3)
	done := b.wait(t.Context(), wait)
	require.Equal(t, session.Key("3"), receive(t, a.contended))
	nothing(t, done)
	ask(t, a, op(session.Free, 3))
	require.NoError(t, receive(t, done))
	require.True(t, wait.OK)
	require.NotZero(t, wait.Token)

	// A session that has ended holds nothing.
	end := &session.Op{Kind: session.End, ID: b.ID()}
	ask(t, a, end)
	receive(t, b.listening.Load().over)
	require.ErrorContains(t, b.listening.Load().why, "57P01")
	for !end.OK {
		ask(t, a, end)
	}
	taken := op(session.Try, 3)
	ask(t, a, taken)
	require.True(t, taken.OK)
	ask(t, a, end)
	require.True(t, end.OK)
	end.ID = "1/1"
	ask(t, a, end)
	require.True(t, end.OK)
	end.ID = fmt.Sprintf("%d/1", a.pid) // an earlier process of that number
	ask(t, a, end)
	require.True(t, end.OK)
	ask(t, a, op(session.Ping, 0))
	require.Error(t, b.Do(t.Context(), []*session.Op{op(session.Ping, 0)}))

	require.NoError(t, a.stop())
	a.Close()
	b.Close()
	require.Zero(t, s.used.Load())
}

// Notifications come through while requests follow one another without a pause.
func TestNotificationDuringRequests(t *testing.T) {
	t.Parallel()
	s := serverAt(t, with(t, database(t).URL(), "ttl", "10s"))
	a, b := dialled(t, s), dialled(t, s)
	require.NoError(t, b.stop())
	require.NoError(t, b.Do(t.Context(), []*session.Op{op(session.Await, 1)}))
	ask(t, a, op(session.Try, 1))
	ask(t, a, op(session.Free, 1))
	for start := time.Now(); len(b.freed) == 0 && time.Since(start) < soon; {
		require.NoError(t, b.Do(t.Context(), []*session.Op{op(session.Ping, 0)}))
	}
	require.Equal(t, session.Key("1"), receive(t, b.freed))
	b.listen()
}

// A wait that outlasts the server's lock_timeout goes on.
func TestWaitGoesOnInTurns(t *testing.T) {
	t.Parallel()
	p := database(t)
	s := serverAt(t, with(t, p.URL(), "ttl", "10s"))
	holder, waiter := dialled(t, s), dialled(t, s)
	waiter.statements.contend.sql = strings.Replace(waiter.statements.contend.sql, milliseconds(waitLockTimeout), "20", 1)
	ask(t, holder, op(session.Try, 1))
	wait := op(session.Try, 1)
	done, conn := waiter.wait(t.Context(), wait), admin(t, p.AdminURL())
	turn := func() time.Time {
		return query[time.Time](t, conn, `SELECT coalesce(max(query_start), 'epoch') FROM pg_stat_activity WHERE wait_event = 'advisory' AND pid = $1`, waiter.pid)
	}
	var first time.Time
	require.Eventually(t, func() bool { first = turn(); return first.Year() > 1970 }, soon, time.Millisecond)
	require.Eventually(t, func() bool { return turn().After(first) }, soon, time.Millisecond, "it waits once more")
	nothing(t, done)
	ask(t, holder, op(session.Free, 1))
	require.NoError(t, receive(t, done))
	require.NoError(t, wait.Err)
	require.True(t, wait.OK)
}

// A session that waits says nothing: its server's system ends it when the client's machine is gone, a quarter of the TTL after the TTL.
func TestSessionsOfGoneMachinesEnd(t *testing.T) {
	t.Parallel()
	a := dialled(t, serverAt(t, with(t, database(t).URL(), "ttl", "10s")))
	require.NoError(t, a.stop())
	for setting, want := range map[string]string{
		"idle_session_timeout": "10000", "tcp_user_timeout": "12500", "client_connection_check_interval": "2500",
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
	} {
		var got string
		require.NoError(t, a.link.conn.QueryRow(t.Context(), `SELECT setting FROM pg_settings WHERE name = $1`, once, setting).Scan(&got))
		require.Equal(t, want, got, setting)
	}
	a.listen()
}
