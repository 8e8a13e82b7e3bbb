package zookeeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/servers"
)

// What takes three servers.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := servers.NeedEnsemble(t, servers.ZooKeeperOptions{})
	for _, test := range []struct {
		name string
		run  func(*testing.T, *servers.Ensemble)
	}{
		{"token", tokenIsCzxid},
		{"leader-killed", leaderKilled}, // it stays so
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, e) })
	}
}

// A hold and a place in the queue survive the death of the leader.
func leaderKilled(t *testing.T, e *servers.Ensemble) {
	o := Options{TTL: 30 * time.Second} // far longer than an election
	holder, _ := newClient(t, o, e.Addrs()...)
	waiter, wb := newClient(t, o, e.Addrs()...)
	other := newBackend(t, o, e.Addrs()...)
	name := t.Name()
	lock := acquires(t, holder, name)
	granted := acquiring(t, waiter, name)
	waits(t, wb, name, 2)
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, leader.Kill())
	_, err = e.WaitFailover(t.Context(), leader)
	require.NoError(t, err)
	waits(t, other, name, 2)
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Release(t.Context()))
	next := granted()
	before, _ := lock.Token()
	after, _ := next.Token()
	require.Greater(t, after, before)
	require.NoError(t, next.Release(t.Context()))
}

// waits waits until so many claims stand in line for name.
func waits(t testing.TB, b *Backend, name string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		st, err := b.Inspect(within(t, soon), name)
		return err == nil && st.Held && st.Waiters == n-1
	}, soon, 5*time.Millisecond)
}

// A session that the server ended takes the hold with it; the next acquisition is a new life.
func TestSessionKilledWhileHolding(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	c, b := newClient(t, Options{TTL: 10 * time.Second}, s.Addr())
	lock := acquires(t, c, t.Name())
	endSession(t, b, s)
	select {
	case <-lock.Lost():
	case <-time.After(time.Second): // far from the deadline
		t.Fatal("the holder was not told")
	}
	require.ErrorIs(t, lock.Err(), lockport.ErrLost)
	again := acquires(t, c, t.Name())
	before, _ := lock.Token()
	after, _ := again.Token()
	require.Greater(t, after, before)
	require.ErrorIs(t, lock.Release(t.Context()), lockport.ErrLost)
	require.NoError(t, again.Err())
	require.NoError(t, again.Release(t.Context()))
}

func TestSessionKilledWhileWaiting(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	holder := newBackend(t, Options{TTL: 10 * time.Second}, s.Addr())
	lease := takes(t, holder, request(holder, t.Name()))
	c, b := newClient(t, Options{TTL: 10 * time.Second}, s.Addr())
	granted := acquiring(t, c, t.Name())
	waits(t, holder, t.Name(), 2)
	endSession(t, b, s)
	waits(t, holder, t.Name(), 2) // in a new session
	frees(t, lease)
	require.NoError(t, granted().Release(t.Context()))
}
