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
		testCut(t, Need(t, "etcd").Servers.(*Etcd).Set)
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		testCut(t, Need(t, "zookeeper").Servers.(*ZooKeeper).Set)
	})
}

func testCut(t *testing.T, s *servers.Set) {
	soon := func(try func(ctx context.Context) error) { require.NoError(t, servers.Poll(t.Context(), try)) }
	old, err := s.Leader(t.Context())
	require.NoError(t, err)
	s.CutFromQuorum(old)
	soon(func(ctx context.Context) error {
		next, err := s.Leader(ctx)
		if err == nil && next == old {
			err = errors.New("it leads still")
		}
		return errors.Join(err, s.Servers[next].Serves(ctx))
	})
	soon(func(ctx context.Context) error {
		if s.Servers[old].Serves(ctx) == nil {
			return errors.New("a server that is cut off serves")
		}
		return nil
	})
	s.Join()
	for _, one := range s.Servers {
		require.NoError(t, one.Serves(t.Context()))
	}
}
