package zkfence

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/servers"
)

// What a lagging server tells a holder counts only if the leader confirms it.
func TestEnsemble(t *testing.T) {
	e := servers.NeedEnsemble(t, servers.ZooKeeperOptions{})
	conn := newConn(t, e.Addrs()...)
	_, err := conn.Create("/data", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	fences := make([]*Fence, len(e.Addrs()))
	for i, addr := range e.Addrs() {
		fences[i] = newFence(t, newConn(t, addr), "/fence")
	}
	var latest *Guard
	for token := lockport.Token(1); token < 60; token++ {
		f := fences[int(token)%len(fences)]
		g := registers(t, f, token)
		require.NoError(t, write(t.Context(), g, "/data", strconv.Itoa(int(token))))
		data, _, err := f.conn.Get("/data")
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(int(token)), string(data))
		if latest != nil {
			require.ErrorIs(t, write(t.Context(), latest, "/data", "late"), fence.ErrStale)
			_, err = latest.fence.Register(t.Context(), latest.Token())
			require.ErrorIs(t, err, fence.ErrStale)
		}
		latest = g
	}

	// A server that is cut off keeps answering for a while, with old data.
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	cut, other := 0, 1
	if cut == leader {
		cut, other = 1, 0
	}
	old := registers(t, fences[cut], 100)
	e.CutFromQuorum(cut)
	defer e.Join()
	newer := registers(t, fences[other], 101)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = fences[cut].Register(ctx, old.Token())
	require.Error(t, err, "a newer holder has registered")
	require.Error(t, write(ctx, old, "/data", "late"))
	require.NoError(t, write(t.Context(), newer, "/data", "new"))
}
