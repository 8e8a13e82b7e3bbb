package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
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
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n := newNode(t, s.URL(), "a", Options{})
	keys := n.keysOf("x")
	first := n.takesToken("x")
	require.InDelta(t, time.Now().UnixMicro(), first, 5e6, "the server's clock")

	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	do(t, s, "SET", keys[2], ahead) // as if the clock was set back
	last := ahead
	rises := func(name string) {
		t.Helper()
		token := n.takesToken(name)
		require.Greater(t, token, last)
		require.Less(t, token, last+10)
		last = token
	}
	for _, name := range []string{"x", "x", "y"} {
		rises(name)
	}
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
		_, err := n.Try(n.Request("x"))
		require.ErrorIs(t, err, driver.ErrRefused)
		require.ErrorContains(t, err, "run out")
	}
	require.Equal(t, int64(0), do(t, s, "EXISTS", keys[0]), "an error grants nothing")
}

// In a Cluster each slot in use has one last token, stored in that slot.
func TestTokensInACluster(t *testing.T) {
	t.Parallel()
	c, _ := newCluster(t)
	n := opened(t, c.URL())
	for range 2 {
		leases, _ := n.many(1000)
		n.freesAll(leases)
	}
	left := int64(0)
	for _, node := range c.Nodes {
		left += do(t, node, "DBSIZE").(int64)
	}
	require.LessOrEqual(t, left, int64(1000))
	require.Greater(t, n.takesToken("x"), n.takesToken("y")-1_000_000)
}

// A server's data does not grow with the number of names ever locked, released or left to expire.
func TestNamesLeaveNothing(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n := newNode(t, s.URL(), "a", Options{})
	leases, _ := n.many(10_000)
	n.freesAll(leases)
	req := n.Request(t.Name())
	req.TTL = 20 * time.Millisecond
	n.claims.Leave(n.Takes(req).(*claim))
	require.Eventually(t, func() bool { return do(t, s, "DBSIZE") == int64(1) }, soon, time.Millisecond, "only the last token is left")
}
