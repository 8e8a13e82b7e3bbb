package environment

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Leftovers lists what any session keeps under the keys that the backend's page states for a lock, a permit and a waiter.
func TestLeftoversOfPostgres(t *testing.T) {
	const name, lock, permit = "nightly-report", 1460986057695863492, -5908599515314385188
	side := advisoryKey("lockport.side:", lock)
	p := Need(t, "postgres").Servers.(*SQL)
	p.Locks.(*sessions).names.Store(name, true)
	other, err := p.Server.Admin.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	for _, key := range []int64{lock, permit} {
		_, err := other.ExecContext(t.Context(), "SELECT pg_advisory_lock($1)", key)
		require.NoError(t, err)
	}
	_, err = other.ExecContext(t.Context(), "SELECT pg_advisory_lock_shared($1, $2)", side>>32, int32(side))
	require.NoError(t, err)
	left, err := p.Leftovers(t.Context(), "nightly")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{name + ": the lock", name + ": a permit", name + ": a waiter"}, left)
	left, err = p.Leftovers(t.Context(), "weekly")
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, p.Remove(t.Context(), name))
	require.ErrorIs(t, p.Remove(t.Context(), name), ErrNotHeld)
}
