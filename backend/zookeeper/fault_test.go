package zookeeper

import (
	"context"
	"fmt"
	"sync"
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
		{"notices", noticesOfAnEnsemble},
		{"follower-cut", followerCutFromLeader},
		{"leader-cut", leaderCutFromFollowers},
		{"leader-killed", leaderKilled}, // it stays so
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, e) })
	}
}

// A follower that is cut from its leader goes on answering pings for a second, while the leader hears nothing of its sessions.
func followerCutFromLeader(t *testing.T, e *servers.Ensemble) {
	for round := range 3 {
		leader, err := e.Leader(t.Context())
		require.NoError(t, err)
		follower := (indexOf(e, leader) + 1) % len(e.Nodes)
		cutHolder(t, e, follower, leader, time.Duration(round)*250*time.Millisecond)
	}
}

// A leader that is cut from its followers leads on for a second, and answers a sync.
func leaderCutFromFollowers(t *testing.T, e *servers.Ensemble) {
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	at := indexOf(e, leader)
	cutHolder(t, e, at, e.Nodes[(at+1)%len(e.Nodes)], 0)
}

// cutHolder cuts the node that a holder is connected to from the others. Another takes the name through one of those.
func cutHolder(t *testing.T, e *servers.Ensemble, node int, other *servers.ZooKeeper, held time.Duration) {
	name := fmt.Sprintf("cut-%d-%v", node, held)
	holder, _ := newClient(t, Options{}, e.Nodes[node].Addr())
	next := newBackend(t, Options{}, other.Addr())
	frees(t, takes(t, next, request(next, name)))
	lock := acquires(t, holder, name)
	time.Sleep(held) // so that renewals lie elsewhere
	belief := follow(lock)
	e.CutFromQuorum(node)
	lease, granted := takeOver(t, next, name)
	belief.endsBefore(t, granted)
	require.ErrorIs(t, lock.Err(), lockport.ErrLost)
	e.Heal()
	// Its late requests change nothing.
	_, err := e.Leader(t.Context())
	require.NoError(t, err)
	again := newBackend(t, Options{}, other.Addr())
	require.Eventually(t, func() bool {
		_, err := try(again, request(again, name))
		require.ErrorIs(t, err, lockport.ErrHeld)
		return e.Nodes[node] != nil && serves(e.Nodes[node])
	}, 2*soon, 50*time.Millisecond)
	frees(t, lease)
	require.NoError(t, holder.Close())
}

func indexOf(e *servers.Ensemble, node *servers.ZooKeeper) int {
	for i, n := range e.Nodes {
		if n == node {
			return i
		}
	}
	return -1
}

// serves says whether a node serves.
func serves(z *servers.ZooKeeper) bool {
	answer, err := z.FourLetter(context.Background(), "ruok")
	if err != nil || answer != "imok" {
		return false
	}
	answer, err = z.FourLetter(context.Background(), "srvr")
	return err == nil && len(answer) > 60
}

// Who was granted a lock after waiting for longer than the TTL has a validity that was confirmed at the end of the wait.
func TestGrantAfterALongWait(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	const ttl = 3 * testTTL // or a machine that stalls for long takes the validity away, as it must
	holder := newBackend(t, Options{TTL: ttl}, s.Addr())
	waiter, _ := newClient(t, Options{TTL: ttl}, s.Addr())
	lease := takes(t, holder, request(holder, t.Name()))
	granted := acquiring(t, waiter, t.Name())
	waits(t, holder, t.Name(), 2)
	time.Sleep(ttl * 5 / 4)
	frees(t, lease)
	next := granted()
	deadline, _ := next.Deadline()
	require.Greater(t, time.Until(deadline), ttl/3)
	require.NoError(t, next.Release(t.Context()))
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

// Whoever is cut off is told before its lock is granted again, whenever in its cycle of renewals that happens.
func TestHoldersPartitioned(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	const holders = 10
	other := newBackend(t, Options{TTL: 10 * time.Second}, s.Addr())
	var running sync.WaitGroup
	for i := range holders {
		proxy := newProxy(t, s.Addr())
		name := fmt.Sprintf("%s-%d", t.Name(), i)
		c, _ := newClient(t, Options{}, proxy.Addr())
		lock := acquires(t, c, name)
		running.Go(func() {
			time.Sleep(time.Duration(i) * testTTL / holders)
			belief := follow(lock)
			if i%2 == 0 {
				proxy.Freeze()
			} else {
				proxy.BlackholeReplies()
			}
			_, granted := takeOver(t, other, name)
			belief.endsBefore(t, granted)
			proxy.Restore()
		})
	}
	running.Wait()
}
