package redis

import (
	"errors"
	"fmt"
	"os"
	"strconv"
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

// Tokens of all names of a server rise after its clock was set back, and exceed a name's tokens from an earlier release of lockport.
func TestTokensRise(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n := newNode(t, s.URL(), "a", Options{})
	keys := n.keysOf(key("x"))
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

	last = ahead + 1_000_000
	do(t, s, "SET", keys[3], last, "EX", 604800) // from an earlier release of lockport, before the clock was set back
	rises("x")
	rises("y")
	do(t, s, "DEL", keys[3]) // it expires
	rises("x")

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
	for i := range 200 {
		key := key(fmt.Sprint("name ", i))
		last := redisscript.LastToken(key, true)
		require.Equal(t, do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", key), do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", last), last)
	}
	b, err := peer.Open(t.Context(), clusterURL(c))
	require.NoError(t, err)
	n := nodeOf(t, b, "a")
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

// A server's data does not grow with the number of names ever locked. LOCKPORT_TEST_NAMES=1000000 takes a minute.
func TestNamesLeaveNothing(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n := newNode(t, s.URL(), "a", Options{})
	most, _ := strconv.Atoi(os.Getenv("LOCKPORT_TEST_NAMES"))
	most = max(most, 20_000)
	used := func() int64 {
		do(t, s, "MEMORY", "PURGE")
		info, err := s.Info(t.Context(), "memory")
		require.NoError(t, err)
		bytes, err := strconv.ParseInt(info["used_memory"], 10, 64)
		require.NoError(t, err)
		return bytes
	}
	done, first := 0, int64(0)
	for _, names := range []int{10, 10_000, most} {
		errs := make([]error, names-done)
		atOnce(names-done, func(i int) {
			req := n.Request(fmt.Sprint(t.Name(), done+i))
			expires := i%10 == 0
			if expires {
				req.TTL = 20 * time.Millisecond
			}
			lease, err := n.Try(req)
			switch {
			case err == nil && expires:
				n.claims.Leave(lease.(*claim))
			case err == nil:
				err = n.Releases(lease)
			}
			errs[i] = err
		})
		require.NoError(t, errors.Join(errs...))
		done = names
		require.Eventually(t, func() bool { return do(t, s, "DBSIZE") == int64(1) }, time.Minute, 10*time.Millisecond, "only the last token is left")
		if first == 0 {
			first = used()
		}
		require.Eventually(t, func() bool { return used()-first < 500_000 }, soon, 100*time.Millisecond, "the buffers of 50 clients, and scripts")
	}
}
