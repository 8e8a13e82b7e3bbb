package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A hung node of a Cluster does not keep a client from renewing its locks on others, of whatever kind.
func TestRenewalBesideAHungNode(t *testing.T) {
	t.Parallel()
	c, client := newCluster(t)
	n := opened(t, c.URL())
	on := func(node *servers.Redis) string { // a name of the node
		for i := 0; ; i++ {
			name := fmt.Sprint("x", i)
			master, err := client.MasterForKey(t.Context(), key(name))
			require.NoError(t, err)
			if master.Options().Addr == node.Addr() {
				return name
			}
		}
	}
	hung, name := c.Nodes[0], on(c.Nodes[1])
	leases := []driver.Lease{n.Takes(n.Request(on(hung))), n.Takes(n.reading(name)), n.Takes(n.permit(name + "p"))}
	require.NoError(t, hung.Freeze())
	t.Cleanup(func() { _ = hung.Thaw() })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	results := make([]driver.Renewal, len(leases))
	n.RenewBatch(ctx, leases, results)
	require.ErrorIs(t, results[0].Err, driver.ErrUnknown)
	require.NoError(t, results[1].Err)
	require.NoError(t, hung.Thaw())
}
