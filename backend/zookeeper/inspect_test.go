package zookeeper

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

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
