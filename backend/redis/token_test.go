package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

// takesToken claims name, releases it, and returns the token.
func (n *node) takesToken(name string) uint64 {
	n.T.Helper()
	lease := n.Takes(n.Request(name))
	defer n.Frees(lease)
	return lease.Grant().Token
}

// Tokens of all names of a server rise after its clock was set back.
func TestTokensRise(t *testing.T) {
	s, n, _ := alone(t)
	keys := n.keysOf("x")
	first := n.takesToken("x")
	require.InDelta(t, time.Now().UnixMicro(), first, 5e6, "the server's clock")

	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	do(t, s, "SET", keys[2], ahead) // as if the clock was set back
	last := ahead
	for _, name := range []string{"x", "x", "y"} {
		token := n.takesToken(name)
		require.Greater(t, token, last)
		require.Less(t, token, last+10)
		last = token
	}
	lease := n.Takes(n.Request("x")).(*claim)
	again := peer.Must(n.pipe.Run(t.Context(), redisscript.Acquire.Call(keys, lease.value(), 10_000, false, 1)).Claimed())(t)
	require.Greater(t, again.Number, int64(lease.grant.Token), "as after a lost reply")
	require.InDelta(t, 9_500, do(t, s, "PTTL", keys[0]), 500)
	n.Frees(lease)
	leases, _ := n.many(100) // one script draws many tokens
	seen := make(map[uint64]bool)
	for _, l := range leases {
		require.Greater(t, l.Grant().Token, last)
		seen[l.Grant().Token] = true
	}
	require.Len(t, seen, len(leases))
	n.freesAll(leases)

	do(t, s, "FLUSHALL")
	require.Greater(t, n.takesToken("x"), first, "all data are lost")

	do(t, s, "SET", keys[2], driver.MaxToken)
	for range 2 {
		require.ErrorContains(t, peer.Fails(t, n, n.Request("x"), driver.ErrRefused), "run out")
	}
	require.Equal(t, int64(0), do(t, s, "EXISTS", keys[0]), "an error grants nothing")
}

// In a Cluster names spread over all nodes, and each slot in use has one last token, stored in that slot. While a slot moves, its locks are renewed.
func TestTokensInACluster(t *testing.T) {
	t.Parallel()
	c, _ := newCluster(t)
	n := opened(t, c.URL())
	for range 2 {
		leases, _ := n.many(1000)
		for _, node := range c.Nodes {
			require.Greater(t, do(t, node, "DBSIZE").(int64), int64(400), "each node has its share of locks and tokens")
		}
		n.freesAll(leases)
	}
	left := int64(0)
	for _, node := range c.Nodes {
		left += do(t, node, "DBSIZE").(int64)
	}
	require.LessOrEqual(t, left, int64(1000))
	require.Greater(t, n.takesToken("x"), n.takesToken("y")-1_000_000)

	slot, from, to := slotOf(t, c, key("x"))
	lease := n.Takes(n.Request("x"))
	do(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", do(t, from, "CLUSTER", "MYID"))
	do(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", do(t, to, "CLUSTER", "MYID"))
	for _, key := range do(t, from, "CLUSTER", "GETKEYSINSLOT", slot, 1000).([]any) {
		do(t, from, "MIGRATE", "127.0.0.1", to.Addr()[len("127.0.0.1:"):], key, 0, 5000)
		peer.Extends(t, n, lease)
	}
	channel := redisscript.ChannelPrefix + "test/1/a"
	for _, key := range []string{key("x"), channel} {
		slot, _, to = slotOf(t, c, key)
		do(t, to, "CLUSTER", "BUMPEPOCH") // otherwise a message that the former owner sent before can take the slot back
		for _, node := range append([]*servers.Redis{to}, c.Nodes...) {
			do(t, node, "CLUSTER", "SETSLOT", slot, "NODE", do(t, to, "CLUSTER", "MYID"))
		}
	}
	n.Frees(lease)
	n.takesToken("x")
	subscribed := func() bool { return do(t, to, "PUBSUB", "NUMSUB", channel).([]any)[1] == int64(1) }
	require.Eventually(t, subscribed, 4*soon, soon/100, "the former node may leave the Cluster, and then gets no messages")
}

// slotOf returns a key's slot, the node that has it, and another.
func slotOf(t *testing.T, c *servers.Group[*servers.Redis], key string) (slot int64, owner, other *servers.Redis) {
	slot = do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", key).(int64)
	i := int(slot) * len(c.Nodes) / 16384
	return slot, c.Nodes[i], c.Nodes[(i+1)%len(c.Nodes)]
}
