package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// pidOf is the process that serves conn.
func pidOf(conn *pgx.Conn) int { return int(conn.PgConn().PID()) }

func TestBreakSession(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b := backendAt(t, p.URL())
	c := clientAt(t, p.URL())
	one, two := acquire(t, c, "one"), acquire(t, c, "two")
	st, err := b.Inspect(t.Context(), "one")
	require.NoError(t, err)
	require.ErrorIs(t, b.BreakSession(t.Context(), "one", "somebody else"), driver.ErrLost)
	require.ErrorIs(t, b.BreakSession(t.Context(), "three", st.Owner), driver.ErrLost)
	var shared *driver.SharedSessionError
	require.ErrorAs(t, b.Break(t.Context(), "one", st.Owner), &shared)
	require.Equal(t, []string{"two"}, shared.Names)
	require.True(t, one.Valid() && two.Valid())

	require.NoError(t, b.BreakSession(t.Context(), "one", st.Owner))
	for _, l := range []*lockport.Lock{one, two} {
		select {
		case <-l.Lost():
		case <-time.After(time.Minute):
			t.Fatal("the holder is not told")
		}
	}
	require.ErrorIs(t, b.BreakSession(t.Context(), "one", st.Owner), driver.ErrLost)
}

// TestBreakSeesAllThatAForeignSessionHas: keys of two numbers, and what a session has in shared mode, are locks like others.
func TestBreakSeesAllThatAForeignSessionHas(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b := backendAt(t, p.URL()+"?exact=true")
	for also, names := range map[string][]string{
		"pg_advisory_lock(1, 2)":      nil,
		"pg_advisory_lock_shared(-9)": {"-9"},
		"pg_advisory_lock(-9)":        {"-9"},
	} {
		conn := admin(t, p.URL())
		execute(t, conn, `SELECT pg_advisory_lock(-7)`)
		execute(t, conn, `SELECT `+also)
		st, err := b.Inspect(t.Context(), "-7")
		require.NoError(t, err)
		var shared *driver.SharedSessionError
		require.ErrorAs(t, b.Break(t.Context(), "-7", st.Owner), &shared, also)
		require.Equal(t, driver.SharedSessionError{Session: fmt.Sprint("process ", pidOf(conn)), Others: 1, Names: names}, *shared, also)
		require.NoError(t, b.BreakSession(t.Context(), "-7", st.Owner))
		_, err = conn.Exec(t.Context(), `SELECT 1`)
		require.Error(t, err)
	}
}

// TestSharedHolderIsSeen: it keeps us out, though others may hold the lock with it.
func TestSharedHolderIsSeen(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b := backendAt(t, p.URL()+"?exact=true")
	conn := admin(t, p.URL())
	execute(t, conn, `SELECT set_config('application_name', 'psql', false), pg_advisory_lock_shared(5)`)
	st, err := b.Inspect(t.Context(), "5")
	require.NoError(t, err)
	require.Equal(t, driver.Status{Name: "5", Held: true, Foreign: true, Owner: fmt.Sprintf("pid %d (psql), in shared mode", pidOf(conn))}, st)
	require.ErrorIs(t, b.Break(t.Context(), "5", st.Owner), driver.ErrRefused)
	execute(t, conn, `SELECT 1`)
}

// TestListOfExactKeys: who knows the keys knows the names, foreign clients' too.
func TestListOfExactKeys(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b := backendAt(t, p.URL()+"?exact=true")
	acquire(t, clientAt(t, p.URL()+"?exact=true"), "42")
	conn, waiter := admin(t, p.URL()), admin(t, p.URL())
	execute(t, conn, `SELECT set_config('application_name', 'psql', false), pg_advisory_lock(-4200000000), pg_advisory_lock(0, 42)`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = waiter.Exec(ctx, `SELECT pg_advisory_lock(-4200000000)`)
	}()
	defer func() { cancel(); <-ended }()
	var all []driver.Status
	require.Eventually(t, func() bool {
		var err error
		all, err = b.List(t.Context(), "-42")
		require.NoError(t, err)
		return len(all) == 1 && all[0].Waiters == 1
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, driver.Status{Name: "-4200000000", Held: true, Foreign: true, Owner: fmt.Sprintf("pid %d (psql)", pidOf(conn)), Waiters: 1}, all[0])
	st, err := b.Inspect(t.Context(), "-4200000000")
	require.NoError(t, err)
	require.Equal(t, all[0], st)
	all, err = b.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, all, 2)
}
