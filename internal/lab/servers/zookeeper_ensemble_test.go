package servers

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func leaderOf(t *testing.T, e *Ensemble) (leader *ZooKeeper, i int) {
	t.Helper()
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	return leader, slices.Index(e.Nodes, leader)
}

// waitMode waits until a node calls itself mode, "" where it has no leader.
func waitMode(t *testing.T, z *ZooKeeper, mode string) {
	t.Helper()
	require.NoError(t, poll(soon(t), func() error {
		got, err := z.Mode(t.Context())
		if got != mode {
			return errors.Join(err, errors.New("not yet "+mode))
		}
		return nil
	}))
}

// wantSame requires that every node soon has what was written through one.
func wantSame(t *testing.T, e *Ensemble, through *ZooKeeper, path string) {
	t.Helper()
	create(t, zkClient(t, through.Addr()), path, 0)
	for _, node := range e.Nodes {
		conn := zkClient(t, node.Addr())
		_, err := conn.Sync("/")
		require.NoError(t, err)
		require.True(t, exists(t, conn, path))
	}
}

func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := NeedEnsemble(t, ZooKeeperOptions{})
	require.Len(t, e.Nodes, 3)
	require.Equal(t, "zookeeper://"+strings.Join(e.Addrs(), ","), e.URL())
	leader, _ := leaderOf(t, e)
	for _, node := range e.Nodes {
		waitMode(t, node, map[bool]string{true: "leader", false: "follower"}[node == leader])
	}
	wantSame(t, e, leader, "/at-the-start")

	require.NoError(t, leader.Kill())
	next, err := e.WaitFailover(t.Context(), leader)
	require.NoError(t, err)
	require.NotSame(t, leader, next)
	require.NoError(t, leader.WipeData())
	require.NoError(t, leader.Restart(t.Context()))
	waitMode(t, leader, "follower")
	wantSame(t, e, next, "/after-a-kill")

	require.NoError(t, next.Freeze())
	third, err := e.WaitFailover(t.Context(), next)
	require.NoError(t, err)
	require.NotSame(t, next, third)
	require.NoError(t, next.Thaw())
	waitMode(t, next, "follower")
	wantSame(t, e, next, "/after-a-freeze")
}

func TestEnsembleCutFromQuorum(t *testing.T) {
	t.Parallel()
	e := NeedEnsemble(t, ZooKeeperOptions{})
	leader, i := leaderOf(t, e)
	follower := e.Nodes[(i+1)%ensembleSize]

	e.CutFromQuorum((i + 1) % ensembleSize)
	waitMode(t, follower, "")
	require.Equal(t, "imok", word(t, follower, "ruok"), "clients still reach it")
	still, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.Same(t, leader, still)
	create(t, zkClient(t, leader.Addr()), "/without-a-follower", 0)
	e.Heal()
	waitMode(t, follower, "follower")
	wantSame(t, e, follower, "/after-a-heal")

	e.CutFromQuorum(i)
	next, err := e.WaitFailover(t.Context(), leader)
	require.NoError(t, err)
	waitMode(t, leader, "")
	create(t, zkClient(t, next.Addr()), "/without-the-leader", 0)
	e.Heal()
	waitMode(t, leader, "follower")
	wantSame(t, e, leader, "/after-another-heal")

	for i := range e.Nodes {
		e.CutFromQuorum(i)
	}
	for _, node := range e.Nodes {
		waitMode(t, node, "")
	}
	e.Heal()
	last, _ := leaderOf(t, e)
	for _, node := range e.Nodes {
		waitMode(t, node, map[bool]string{true: "leader", false: "follower"}[node == last])
	}
	wantSame(t, e, last, "/after-the-last-heal")
}

// TestEnsembleSpeaksThroughItsLinks: a way around a proxy would make a cut node less than cut.
func TestEnsembleSpeaksThroughItsLinks(t *testing.T) {
	e := NeedEnsemble(t, ZooKeeperOptions{})
	_, leader := leaderOf(t, e)
	for a := range e.Nodes {
		for b := range a {
			want := 1 // for elections
			if a == leader || b == leader {
				want = 2 // and between a follower and the leader
			}
			require.Equal(t, want, e.links.joined(a, b))
		}
	}
}

// joined counts the live connections between two nodes.
func (l *quorumLinks) joined(a, b int) (n int) {
	for _, pair := range [][2]int{{a, b}, {b, a}} {
		for _, port := range l.ports[pair[1]] {
			n += l.ways[pair[0]][port].Conns()
		}
	}
	return n
}
