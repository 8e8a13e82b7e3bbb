package servers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A member that is cut off serves nothing until Heal. The others go on, under a new leader if necessary.
func TestCutFromQuorum(t *testing.T) {
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		c := NeedEtcdCluster(t, EtcdOptions{Cuttable: true})
		testCut(t, &c.quorumGroup, put, get)
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		e := NeedEnsemble(t, ZooKeeperOptions{})
		testCut(t, &e.quorumGroup, zkPut, zkGet)
	})
}

func testCut[N member](t *testing.T, q *quorumGroup[N], put func(context.Context, N, string) error, get func(context.Context, N) (string, error)) {
	old, err := q.Leader(t.Context())
	require.NoError(t, err)
	q.CutFromQuorum(old)
	var next int
	soon(t, func(ctx context.Context) (err error) {
		if next, err = q.Leader(ctx); err == nil && next == old {
			err = errors.New("it leads still")
		}
		return err
	})
	soon(t, func(ctx context.Context) error { return put(ctx, q.Nodes[next], "v") })
	soon(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := get(ctx, q.Nodes[old]); err == nil {
			return errors.New("a node that is cut off serves")
		}
		return nil
	})
	q.Heal()
	for _, n := range q.Nodes {
		has(t, "v", func(ctx context.Context) (string, error) { return get(ctx, n) })
	}
}
