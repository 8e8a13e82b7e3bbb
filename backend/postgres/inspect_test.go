package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/servers"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b := backendAt(t, p.URL())
	c := clientAt(t, p.URL())
	const locks = 2*reportsAtOnce + 7
	prefix := `é"\{},'` + strings.Repeat("\x01", 900)
	for i := range locks {
		acquire(t, c, fmt.Sprint(prefix, i))
	}
	all, err := b.List(t.Context(), prefix)
	require.NoError(t, err)
	require.Len(t, all, locks)
	st, err := b.Inspect(t.Context(), prefix+"3")
	require.NoError(t, err)
	require.Contains(t, all, driver.Status{Name: st.Name, Held: true, Owner: st.Owner, Token: st.Token, Waiters: -1})
	require.Zero(t, st.Waiters)

	// Nobody loses others' locks with the one that is broken.
	err = b.Break(t.Context(), st.Name, st.Owner)
	require.ErrorIs(t, err, driver.ErrRefused)
	require.ErrorContains(t, err, fmt.Sprint(locks-1, " other locks"))

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
