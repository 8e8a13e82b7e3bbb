package servers

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEtcdCluster(t *testing.T) {
	bothEtcds(t, func(t *testing.T, o EtcdOptions) {
		t.Parallel()
		c := NeedEtcdCluster(t, o)
		require.Len(t, c.Addrs(), 3)
		require.Equal(t, "etcd://"+strings.Join(c.Addrs(), ","), c.URL())
		put(t, c.Nodes[0], "k", "v")
		for _, node := range c.Nodes {
			requireValue(t, node, "k", "v")
		}
		for _, fault := range []struct{ out, in func(*Etcd) error }{
			{(*Etcd).Kill, func(e *Etcd) error { return e.Restart(t.Context()) }},
			{(*Etcd).Freeze, (*Etcd).Thaw},
		} {
			old, err := c.Leader(t.Context())
			require.NoError(t, err)
			require.NoError(t, fault.out(old))
			next, err := c.Leader(t.Context())
			require.NoError(t, err)
			require.NotSame(t, old, next)
			requireValue(t, next, "k", "v")
			put(t, next, "during", next.Addr())
			require.NoError(t, fault.in(old))
			requireValue(t, old, "during", next.Addr())
		}
		require.NoError(t, c.Restart(t.Context()))
		requireValue(t, c.Nodes[0], "k", "v")
	})
}

func TestEtcdClusterWithoutAMajority(t *testing.T) {
	t.Parallel()
	c := NeedEtcdCluster(t, EtcdOptions{})
	leader, err := c.Leader(t.Context())
	require.NoError(t, err)
	for _, node := range c.Nodes {
		if node != leader {
			require.NoError(t, node.Kill())
		}
	}
	_, err = c.agreed(t.Context())
	require.ErrorContains(t, err, "no majority")
}

func TestEtcdClusterIsCut(t *testing.T) {
	bothEtcds(t, func(t *testing.T, o EtcdOptions) {
		t.Parallel()
		o.Cuttable = true
		c := NeedEtcdCluster(t, o)
		put(t, c.Nodes[0], "k", "v")
		leader, err := c.Leader(t.Context())
		require.NoError(t, err)
		at := slices.Index(c.Nodes, leader)
		c.CutFromQuorum(at)
		next := c.Nodes[(at+1)%etcdNodes]
		put(t, next, "during", "cut")
		_, err = get(t.Context(), leader, "during") // takes a majority
		require.Error(t, err, "it is not cut")
		c.Heal()
		requireValue(t, leader, "during", "cut")
		for _, node := range c.Nodes {
			put(t, node, "after", node.Addr())
		}

		// Restarted, a node speaks through its proxy again.
		require.NoError(t, next.Restart(t.Context()))
		c.CutFromQuorum((at + 1) % etcdNodes)
		put(t, leader, "again", "cut")
		_, err = get(t.Context(), next, "again")
		require.Error(t, err)
		c.Heal()
		requireValue(t, next, "again", "cut")
	})
}

func TestEtcdClusterThatCannotBeCut(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { new(EtcdCluster).CutFromQuorum(0) })
}

func TestEtcdClusterWithEverything(t *testing.T) {
	bothEtcds(t, func(t *testing.T, o EtcdOptions) {
		t.Parallel()
		o.TLS, o.RootPassword = true, "secret"
		c := NeedEtcdCluster(t, o)
		require.Equal(t, "etcds://root:secret@"+strings.Join(c.Addrs(), ","), c.URL())
		put(t, c.Nodes[0], "k", "v")
		leader, err := c.Leader(t.Context())
		require.NoError(t, err)
		require.NoError(t, leader.Freeze())
		next, err := c.Leader(t.Context())
		require.NoError(t, err)
		requireValue(t, next, "k", "v")
		require.NoError(t, leader.Restart(t.Context()))
		requireValue(t, leader, "k", "v")
	})
}

func TestEtcdClusterPortTaken(t *testing.T) {
	other := NeedEtcd(t, EtcdOptions{})
	tried := 0
	c, err := startEtcdCluster(t.Context(), EtcdOptions{}, func(offset int) (int, error) {
		if tried++; tried == 2 {
			return other.port, nil
		}
		return freePort(offset)
	})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Equal(t, 2*etcdNodes, tried)
}

func TestEtcdClusterLeavesNothing(t *testing.T) {
	NeedEtcd(t, EtcdOptions{})
	TempDir(t)
	_, err := StartEtcdCluster(t.Context(), EtcdOptions{Flags: []string{"--no-such-flag"}})
	require.ErrorContains(t, err, "no-such-flag")
	wantEmpty(t, os.TempDir())
	c, err := StartEtcdCluster(t.Context(), EtcdOptions{})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	for _, node := range c.Nodes {
		require.False(t, node.proc.alive())
	}
	wantEmpty(t, os.TempDir())
}
