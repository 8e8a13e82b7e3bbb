package zookeeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// waits waits until name's queue has the given number of claims.
func waits(t testing.TB, b *node, name string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		st, err := b.Inspect(within(t, soon), name)
		return err == nil && st.Held && st.Waiters == n-1
	}, soon, 5*time.Millisecond)
}

// When the server ends a session, its waiter queues again, and its holder is told of the loss.
func TestSessionKilled(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	o := Options{TTL: 10 * time.Second}
	holder, h := newClient(t, o, s.Addr())
	waiter, w := newClient(t, o, s.Addr())
	lock := acquires(t, holder, t.Name())
	granted := peer.Acquiring(t, waiter, t.Name())
	waits(t, h, t.Name(), 2)
	endSession(t, w, s)
	waits(t, h, t.Name(), 2) // in a new session
	require.NoError(t, lock.Err())
	endSession(t, h, s)
	select {
	case <-lock.Lost():
	case <-time.After(time.Second): // long before the deadline
		t.Fatal("the holder was not told")
	}
	require.ErrorIs(t, lock.Err(), lockport.ErrLost)
	next := peer.Eventually(t, granted)
	before, _ := lock.Token()
	after, _ := next.Token()
	require.Greater(t, after, before)
	require.ErrorIs(t, lock.Release(t.Context()), lockport.ErrLost)
	require.NoError(t, next.Err())
	require.NoError(t, next.Release(t.Context()))
	again := acquires(t, holder, t.Name())
	require.NoError(t, again.Release(t.Context()))
}
