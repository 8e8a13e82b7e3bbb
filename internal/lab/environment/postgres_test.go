package environment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/peer"
)

// Leftovers lists what any session keeps under the keys that the backend's page states for a lock, a permit and a waiter.
func TestLeftoversOfPostgres(t *testing.T) {
	const name, lock, permit = "nightly-report", 1460986057695863492, -5908599515314385188
	side := advisoryKey("lockport.side:", lock)
	p := Need(t, "postgres").Servers.(*SQL)
	p.Locks.(*sessions).names.Store(name, true)
	other := peer.Must(p.Server.Admin.Conn(t.Context()))(t)
	defer func() { _ = other.Close() }()
	const keep = "SELECT pg_advisory_lock($1), pg_advisory_lock($2), pg_advisory_lock_shared($3, $4)"
	require.NoError(t, peer.ErrOf(other.ExecContext(t.Context(), keep, lock, permit, side>>32, int32(side))))
	left := peer.Must(p.Leftovers(t.Context(), "nightly"))(t)
	require.ElementsMatch(t, []string{name + ": the lock", name + ": a permit", name + ": a waiter"}, left)
	require.Empty(t, peer.Must(p.Leftovers(t.Context(), "weekly"))(t))
	require.NoError(t, p.Remove(t.Context(), name))
	require.ErrorIs(t, p.Remove(t.Context(), name), ErrNotHeld)
}
