package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b := backendAt(t, p.URL())
	c := clientAt(t, p.URL())
	const locks = 407 // some messages
	prefix := `é"\{},'` + strings.Repeat("\x01", 900)
	for i := range locks {
		acquire(t, c, fmt.Sprint(prefix, i))
	}
	all, err := b.List(t.Context(), prefix)
	require.NoError(t, err)
	require.Len(t, all, locks)
	st, err := b.Inspect(t.Context(), prefix+"3")
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), st.Since, time.Minute)
	since := st.Since
	st.Since = time.Time{}
	require.Equal(t, driver.Status{Name: prefix + "3", Held: true, Owner: st.Owner, Token: st.Token}, st)
	for i := range all {
		require.WithinDuration(t, since, all[i].Since, time.Minute)
		all[i].Since = time.Time{}
	}
	require.Contains(t, all, st)

	// Nobody loses others' locks with the one that is broken.
	err = b.Break(t.Context(), st.Name, st.Owner)
	require.ErrorIs(t, err, driver.ErrRefused)
	require.ErrorContains(t, err, fmt.Sprint(locks-1, " other locks"))
	var shared *driver.SharedSessionError
	require.ErrorAs(t, err, &shared)
	require.Equal(t, locks-1, shared.Others)
	require.Len(t, shared.Names, locks-1)
	require.Contains(t, shared.Names, prefix+"7")
	require.NotContains(t, shared.Names, st.Name)

	// A foreign client says nothing.
	conn := admin(t, p.AdminURL())
	key, err := b.layout.key("foreign")
	require.NoError(t, err)
	execute(t, conn, `SELECT set_config('application_name', 'psql', false), pg_advisory_lock($1)`, key)
	st, err = b.Inspect(t.Context(), "foreign")
	require.NoError(t, err)
	require.True(t, st.Held && st.Foreign)
	require.Equal(t, fmt.Sprintf("pid %d (psql)", conn.PgConn().PID()), st.Owner)
	err = b.Break(t.Context(), "foreign", st.Owner)
	require.ErrorIs(t, err, driver.ErrRefused, "an ordinary role may not end the superuser's session")
	require.ErrorContains(t, err, "grant the privilege")
}

// The lock may change hands between the look at it and the end of its session.
func TestBreakEndsOnlyWhoHasTheLock(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b := backendAt(t, p.URL())
	conn := admin(t, p.URL())
	pid := int64(conn.PgConn().PID())
	execute(t, conn, `SELECT pg_advisory_lock(-7), pg_advisory_lock_shared(8), pg_advisory_lock(0, 9)`)
	terminate := func(key int64) error {
		return b.server.lookAtLocks(t.Context(), func(ctx context.Context, l *looker) error { return l.terminate(ctx, pid, key) })
	}
	for _, key := range []int64{7, 8, 9} {
		require.ErrorIs(t, terminate(key), driver.ErrLost)
	}
	execute(t, conn, `SELECT 1`)
	require.NoError(t, terminate(-7))
	_, err := conn.Exec(t.Context(), `SELECT 1`)
	require.Error(t, err)
}

// A session that ends after it was asked is not waited for.
func TestSessionThatEndsBeforeItAnswers(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b := backendAt(t, p.URL())
	c := clientAt(t, p.URL())
	acquire(t, c, "held")
	mute, watcher := admin(t, p.AdminURL()), admin(t, p.AdminURL())
	pid := mute.PgConn().PID()
	execute(t, mute, `SELECT set_config('application_name', 'lockport mute', false), pg_advisory_lock(1)`)
	found := make(chan error, 1)
	go func() {
		found <- b.server.lookAtLocks(t.Context(), func(ctx context.Context, l *looker) error {
			l.patience = time.Hour
			return l.ask(ctx, []seen{{pid: int64(pid), application: "lockport mute"}}, "*")
		})
	}()
	require.Eventually(t, func() bool {
		var asked bool
		require.NoError(t, watcher.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN lockport_%')`).Scan(&asked))
		return asked
	}, time.Minute, 10*time.Millisecond)
	select {
	case err := <-found:
		t.Fatalf("it is there, and has not answered: %v", err)
	case <-time.After(3 * lookAgainTime):
	}
	execute(t, watcher, `SELECT pg_terminate_backend($1)`, pid)
	require.NoError(t, <-found)
}

// Locks whose names nobody tells are not passed over in silence.
func TestListSaysThatItIsNotComplete(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b := backendAt(t, p.URL())
	acquire(t, clientAt(t, p.URL()), "held")
	mute := admin(t, p.AdminURL())
	execute(t, mute, `SELECT set_config('application_name', 'lockport mute', false), pg_advisory_lock(1), pg_advisory_lock(2)`)
	all, err := b.List(t.Context(), "")
	require.Len(t, all, 1)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, fmt.Sprintf("pid %d (lockport mute) has 2 and does not say which", pidOf(mute)))
	execute(t, mute, `SELECT pg_advisory_unlock_all()`)
	all, err = b.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, all, 1)
}
