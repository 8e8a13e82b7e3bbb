package servers

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestZooKeeperEndSession(t *testing.T) {
	t.Parallel()
	e := NeedEnsemble(t, ZooKeeperOptions{})
	theirs, others := zkClient(t, e.Nodes[0].Addr()), zkClient(t, e.Nodes[1].Addr())
	create(t, theirs, "/theirs", zk.FlagEphemeral)
	create(t, others, "/others", zk.FlagEphemeral)
	_, node, err := others.Exists("/others")
	require.NoError(t, err)
	session := theirs.SessionID()
	require.NotEqual(t, node.EphemeralOwner, session)
	for _, through := range e.Nodes { // one of them leads; ending it twice is no error
		require.NoError(t, through.EndSession(soon(t), session))
	}
	require.False(t, exists(t, others, "/theirs"))
	require.True(t, exists(t, others, "/others"))
	_, err = theirs.Create("/again", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.Error(t, err, "the client goes on in a session that has ended")
}
