package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A ping is answered by who is known to be with a majority, as a claim is.
func TestPingOfAMinority(t *testing.T) {
	onClusters(t, func(t *testing.T, c *servers.EtcdCluster) {
		n := newNode(t, c.Nodes[0].URL(), "a")
		ping := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := n.Ping(ctx)
			return err
		}
		require.NoError(t, ping())
		for _, other := range c.Nodes[1:] {
			require.NoError(t, other.Freeze())
		}
		for range 3 {
			require.ErrorIs(t, ping(), driver.ErrUnavailable)
		}
		for _, other := range c.Nodes[1:] {
			require.NoError(t, other.Thaw())
		}
		eventually(t, func() bool { return ping() == nil }, "the majority is back")
	})
}
