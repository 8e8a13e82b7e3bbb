package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

// foreignHolder is a psql session that has run sql.
func foreignHolder(t *testing.T, url, sql string) *pgx.Conn {
	conn := admin(t, url+"?application_name=psql")
	execute(t, conn, sql)
	return conn
}

func TestInspectAndBreak(t *testing.T) {
	p := database(t)
	b := backendAt(t, p.URL())
	c := clientAt(t, p.URL(), lockport.Label("batch"))
	one, two := peer.Holds(t, c, "one"), peer.Holds(t, c, "two")

	// The server knows the session, and the client by application_name. It knows no names.
	st := peer.Shows(t, b, "one")
	pid := sessionOf(t, one).PID
	claimant, ok := driver.OwnerClaimant(st.Owner)
	require.True(t, ok, st.Owner)
	require.Equal(t, "batch", claimant.Label)
	require.Equal(t, driver.Status{Name: "one", Held: true, Owner: sessionOwner(int64(pid), driver.OwnerClient(st.Owner))}, st)
	require.ErrorIs(t, peer.ErrOf(b.List(t.Context(), "")), errors.ErrUnsupported)

	// Break does not end a session with other locks.
	var shared *driver.SharedSessionError
	require.ErrorAs(t, b.Break(t.Context(), "one", st.Owner), &shared)
	require.Equal(t, driver.SharedSessionError{Session: fmt.Sprint("process ", pid), Others: 1}, *shared)
	require.ErrorIs(t, b.BreakSession(t.Context(), "one", "somebody else"), driver.ErrLost)
	require.ErrorIs(t, b.BreakSession(t.Context(), "three", st.Owner), driver.ErrLost)
	require.True(t, one.Valid() && two.Valid())
	require.NoError(t, b.BreakSession(t.Context(), "one", st.Owner))
	peer.Eventually(t, one.Lost())
	peer.Eventually(t, two.Lost())
	require.ErrorIs(t, b.BreakSession(t.Context(), "one", st.Owner), driver.ErrLost)

	peer.Holds(t, c, "permit", lockport.Permits(1))
	peer.Acquiring(t, clientAt(t, p.URL()), "permit", lockport.Permits(1))
	peer.Until(t, func() bool { return peer.Shows(t, b, "permit").Waiters == 1 })

	// An ordinary role may not end a superuser's session.
	key := peer.Must(b.server.layout.Key("foreign"))(t)
	conn := foreignHolder(t, p.AdminURL(), fmt.Sprintf(`SELECT pg_advisory_lock(%s)`, key))
	st = peer.Shows(t, b, "foreign")
	require.Equal(t, driver.Status{Name: "foreign", Held: true, Foreign: true, Owner: fmt.Sprintf("pid %d (psql)", conn.PgConn().PID())}, st)
	peer.SaysOneLine(t, b.Break(t.Context(), "foreign", st.Owner), driver.ErrRefused, "grant the privilege")
}

// The lock may change hands between the look and the end of its session.
func TestBreakEndsOnlyWhoHasTheLock(t *testing.T) {
	p := database(t)
	b := backendAt(t, p.URL())
	conn := foreignHolder(t, p.URL(), `SELECT pg_advisory_lock(-7), pg_advisory_lock_shared(8), pg_advisory_lock(0, 9)`)
	held, got := peer.Holds(t, clientAt(t, p.URL()+"?exact=true"), "7"), make(chan error, 1)
	go func() { got <- peer.ErrOf(conn.Exec(t.Context(), `SELECT pg_advisory_lock(7)`)) }()
	p.queues(t)
	terminate := func(key int64) error {
		return b.server.look(t.Context(), func(l session.Looker) error {
			return l.End(t.Context(), session.Holder{Session: int64(conn.PgConn().PID()), Key: sessionKey(key)})
		})
	}
	for _, key := range []int64{7, 8, 9} {
		require.ErrorIs(t, terminate(key), driver.ErrLost)
	}
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, peer.Eventually(t, got))
	require.NoError(t, terminate(-7))
	require.Error(t, peer.ErrOf(conn.Exec(t.Context(), `SELECT 1`)))
}

// Locks of two numbers and shared ones count as other locks of a session. A shared holder excludes us, though others may share the lock with it.
func TestLocksOfForeignSessions(t *testing.T) {
	p := database(t)
	b := backendAt(t, p.URL()+"?exact=true")
	for _, also := range []string{"pg_advisory_lock(1, 2)", "pg_advisory_lock_shared(-9)", "pg_advisory_lock(-9)"} {
		conn := foreignHolder(t, p.URL(), `SELECT pg_advisory_lock_shared(-7), `+also)
		st := peer.Shows(t, b, "-7")
		require.Equal(t, driver.Status{Name: "-7", Held: true, Foreign: true, Shared: true, Owner: fmt.Sprintf("pid %d (psql)", conn.PgConn().PID())}, st)
		var shared *driver.SharedSessionError
		require.ErrorAs(t, b.Break(t.Context(), "-7", st.Owner), &shared, also)
		require.Equal(t, driver.SharedSessionError{Session: fmt.Sprint("process ", conn.PgConn().PID()), Others: 1}, *shared, also)
		require.NoError(t, b.BreakSession(t.Context(), "-7", st.Owner))
		require.Error(t, peer.ErrOf(conn.Exec(t.Context(), `SELECT 1`)))
	}
}

// A prepared transaction has its locks without a session.
func TestLockOfAPreparedTransaction(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{Config: []string{"max_prepared_transactions = 1"}})
	execute(t, admin(t, p.URL()), `BEGIN; SELECT pg_advisory_xact_lock(7); PREPARE TRANSACTION 'seven'`)
	b := backendAt(t, p.URL()+"?exact=true")
	st := peer.Shows(t, b, "7")
	require.Equal(t, driver.Status{Name: "7", Held: true, Foreign: true, Owner: "pid 0 (prepared transaction)"}, st)
	peer.SaysOneLine(t, b.BreakSession(t.Context(), "7", st.Owner), driver.ErrRefused, "ROLLBACK PREPARED")
}
