package zookeeper

import (
	"regexp"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The nodes are those that Curator's InterProcessMutex writes and reads.
func TestLayout(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	raw, top := newRaw(t, s.Addr()), "/"+fresh(t)
	b := newBackend(t, Options{Chroot: top + "/locks"}, s.Addr())
	const name = "a/b é"
	req := request(b, name)
	lease := b.Takes(req)
	children, _, err := raw.Children(top + "/locks/a%2Fb%20%C3%A9")
	require.NoError(t, err)
	require.Len(t, children, 1)
	require.Regexp(t, regexp.MustCompile(`^_c_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}-lock-0000000000$`), children[0])
	path := top + "/locks/a%2Fb%20%C3%A9/" + children[0]
	data, stat, err := raw.Get(path)
	require.NoError(t, err)
	require.Equal(t, req.Owner, string(data))
	require.Equal(t, sessionOf(b), stat.EphemeralOwner)
	require.Equal(t, uint64(stat.Czxid), lease.Grant().Token)
	var node Node
	require.True(t, lease.(driver.LeaseAs).As(&node))
	require.Equal(t, Node{Path: path, Session: stat.EphemeralOwner, Czxid: stat.Czxid}, node)
	b.Frees(lease)
	// All are containers, which the server removes.
	require.Eventually(t, func() bool {
		gone, _, err := raw.Exists(top)
		require.NoError(t, err)
		return !gone
	}, 2*soon, 50*time.Millisecond)
	b.Frees(b.Takes(request(b, name)))
}

// Foreign clients of the same layout hold and wait, and are reported as foreign.
func TestForeign(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	raw := newRaw(t, s.Addr())
	c, b := newClient(t, Options{}, s.Addr())
	theirs := zk.NewLock(raw, "/"+t.Name(), zk.WorldACL(zk.PermAll))
	require.NoError(t, theirs.LockWithData([]byte("10.1.2.3")))
	_, err := c.TryAcquire(within(t, soon), t.Name())
	require.ErrorIs(t, err, lockport.ErrHeld)
	st, err := b.Inspect(within(t, soon), t.Name())
	require.NoError(t, err)
	require.True(t, st.Held && st.Foreign)
	require.Contains(t, st.Owner, `"10.1.2.3" _c_`)
	granted := peer.Acquiring(t, c, t.Name())
	waits(t, b, t.Name(), 2)
	require.NoError(t, theirs.Unlock())
	ours := peer.Eventually(t, granted)
	locked := make(chan error, 1)
	again := zk.NewLock(raw, "/"+t.Name(), zk.WorldACL(zk.PermAll))
	go func() { locked <- again.Lock() }()
	waits(t, b, t.Name(), 2)
	require.NoError(t, ours.Err())
	require.NoError(t, ours.Release(t.Context()))
	require.NoError(t, <-locked)
	// Their locks can be broken.
	st, err = b.Inspect(within(t, soon), t.Name())
	require.NoError(t, err)
	require.ErrorIs(t, b.Break(within(t, soon), t.Name(), "somebody"), driver.ErrLost)
	require.NoError(t, b.Break(within(t, soon), t.Name(), st.Owner))
	b.Frees(b.Takes(request(b, t.Name())))
}

// Other programs' nodes beside the locks are not listed. One that may not be read hides no lock.
func TestNodesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	raw, chroot := newRaw(t, s.Addr()), "/"+fresh(t)
	for _, path := range []string{"", "/brokers", "/brokers/ids", "/brokers/topics"} {
		_, err := raw.Create(chroot+path, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	_, err := raw.Create(chroot+"/hidden", nil, 0, zk.DigestACL(zk.PermAll, "alice", "secret"))
	require.NoError(t, err)
	c, b := newClient(t, Options{Chroot: chroot}, s.Addr())
	st, err := b.Inspect(within(t, soon), "brokers")
	require.NoError(t, err)
	require.Equal(t, driver.Status{Name: "brokers"}, st)
	all, err := b.List(within(t, soon), "")
	require.NoError(t, err)
	require.Empty(t, all)

	// Such a node can still be a lock's.
	lock, err := c.TryAcquire(within(t, soon), "brokers")
	require.NoError(t, err)
	all, err = b.List(within(t, soon), "")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "brokers", all[0].Name)
	require.Zero(t, all[0].Waiters)
	require.False(t, all[0].Foreign)
	require.NoError(t, lock.Release(t.Context()))
	_, err = b.Inspect(within(t, soon), "hidden")
	peer.SaysOneLine(t, err, lockport.ErrRefused, "/hidden")
}

// A change of a node's data does not end its hold.
func TestNodeDataChanged(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	raw := newRaw(t, s.Addr())
	c, b := newClient(t, Options{TTL: time.Minute}, s.Addr()) // renewals check the node too, but come too late
	lock := acquires(t, c, t.Name())
	var node Node
	require.True(t, lock.As(&node))
	watched := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.claims {
			return c.held && c.watch != nil && len(c.watch) == 0
		}
		return false
	}
	require.Eventually(t, watched, soon, 5*time.Millisecond)
	for range 3 {
		_, err := raw.Set(node.Path, []byte("10.1.2.3"), -1)
		require.NoError(t, err)
		require.Eventually(t, watched, soon, 5*time.Millisecond)
	}
	require.NoError(t, lock.Err())
	require.NoError(t, raw.Delete(node.Path, -1))
	<-lock.Lost()
}
