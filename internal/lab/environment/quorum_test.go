package environment

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// A member that is cut off serves nothing until Join. The others go on, under a new leader.
func TestCutFromQuorum(t *testing.T) {
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		e := Need(t, "etcd").Servers.(*Etcd)
		testCut(t, &e.base, e.Members, askEtcd)
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		z := Need(t, "zookeeper").Servers.(*ZooKeeper)
		testCut(t, &z.base, z.nodes, askZooKeeper)
	})
}

func testCut[N any](t *testing.T, b *base, nodes []N, ask func(context.Context, N) error) {
	soon := func(try func(ctx context.Context) error) { require.NoError(t, servers.Poll(t.Context(), try)) }
	old, err := b.Leader(t.Context())
	require.NoError(t, err)
	b.CutFromQuorum(old)
	soon(func(ctx context.Context) error {
		next, err := b.Leader(ctx)
		if err == nil && next == old {
			err = errors.New("it leads still")
		}
		return errors.Join(err, ask(ctx, nodes[next]))
	})
	soon(func(ctx context.Context) error {
		if ask(ctx, nodes[old]) == nil {
			return errors.New("a node that is cut off serves")
		}
		return nil
	})
	b.Join()
	require.NoError(t, serve(t.Context(), nodes, ask))
}
