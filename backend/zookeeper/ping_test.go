package zookeeper

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A ping goes through the leader, as a claim does: the server that we are connected to cannot answer it.
func TestPingOfAFollower(t *testing.T) {
	e := servers.NeedEnsemble(t, servers.ZooKeeperOptions{})
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	b := newBackend(t, Options{Chroot: "/there/is/none"}, e.Nodes[(indexOf(e, leader)+1)%len(e.Nodes)].Addr())
	_, err = b.Ping(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, leader.Freeze())
	_, err = b.Ping(within(t, b.o.TTL/4))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NoError(t, leader.Thaw())
	require.Eventually(t, func() bool {
		_, err := b.Ping(within(t, soon))
		return err == nil
	}, 2*soon, b.o.TTL/20)
}
