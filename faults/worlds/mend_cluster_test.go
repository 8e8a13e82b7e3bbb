package worlds

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Whatever was done to members, Mend has all of them serve: a lock can be had through each.
func TestMendCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: starts servers")
	}
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		w := started(t, &Etcd)
		s := w.Servers.(*etcds)
		mends(t, w)
		require.NoError(t, atEtcd(s.nodes[1], func(c *clientv3.Client) error { return fill(t.Context(), c) }))
		servesEach(t, w)
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		w := started(t, &ZooKeeper)
		mends(t, w)
	})
}

func started(t *testing.T, a *faults.Arrangement) *faults.World {
	w, err := a.Open(t.Context())
	servers.NeedInstalled(t, err, a.Needs...)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

func mends(t *testing.T, w *faults.World) {
	c := w.Servers.(cluster)
	members := c.members()
	t.Log("nothing")
	servesEach(t, w)
	t.Log("one is frozen, one is down")
	require.NoError(t, members[0].Freeze())
	require.NoError(t, members[1].Kill())
	servesEach(t, w)
	t.Log("all are down")
	for _, m := range members {
		require.NoError(t, m.Kill())
	}
	servesEach(t, w)
	t.Log("one is cut, another is down")
	c.CutFromQuorum(2)
	require.NoError(t, members[0].Kill())
	servesEach(t, w)
}

// servesEach mends w, and has a lock through each of its servers alone.
func servesEach(t *testing.T, w *faults.World) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, w.Mend(ctx))
	seat, err := w.Seat()
	require.NoError(t, err)
	for i := range seat.Links {
		for k, link := range seat.Links {
			if k != i {
				link.Cut()
			}
		}
		c, err := lockport.Open(ctx, seat.URL, lockport.TTL(w.TTL), lockport.Logger(nil))
		require.NoError(t, err)
		l, err := c.TryAcquire(ctx, "mended")
		require.NoError(t, err)
		require.NoError(t, l.Release(ctx))
		require.NoError(t, c.Close())
		for _, link := range seat.Links {
			link.Restore()
		}
	}
	require.NoError(t, closeAll(seat.Links...))
}
