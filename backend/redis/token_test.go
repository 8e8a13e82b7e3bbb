package redis

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

// takesToken claims name, and gives it back.
func (n *node) takesToken(name string) uint64 {
	n.t.Helper()
	lease := n.takes(n.request(name))
	defer frees(n.t, lease)
	return lease.Grant().Token
}

// Tokens rise for all names of a server when its clock was set back, and exceed those that an earlier release of lockport has left for a name.
func TestTokensRise(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n := newNode(t, s.URL(), "a", Options{})
	keys := makeKeys(defaultLayout.Key("x"))
	first := n.takesToken("x")
	require.InDelta(t, time.Now().UnixMicro(), first, 5e6, "the server's clock")

	ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
	do(t, s, "SET", keys.last, ahead) // the clock was set back
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
	leases, _ := n.many(100) // many draw in one script
	seen := make(map[uint64]bool)
	for _, l := range leases {
		require.Greater(t, l.Grant().Token, last)
		seen[l.Grant().Token] = true
	}
	require.Len(t, seen, len(leases))
	n.freesAll(leases)

	last = ahead + 1_000_000
	do(t, s, "SET", keys.older, last, "EX", 604800) // by an earlier release of lockport, before the clock was set back
	rises("x")
	rises("y")
	do(t, s, "DEL", keys.older) // when its time has come
	rises("x")

	do(t, s, "FLUSHALL")
	require.Greater(t, n.takesToken("x"), first, "all data are lost")

	do(t, s, "SET", keys.last, driver.MaxToken)
	for range 2 {
		_, err := n.try(n.request("x"))
		require.ErrorIs(t, err, driver.ErrRefused)
		require.ErrorContains(t, err, "run out")
	}
	require.Equal(t, int64(0), do(t, s, "EXISTS", keys.lock), "an error grants nothing")
}

// A claim whose reply was lost has a token of its own when it is asked for again. One that finds the name held is told by whom.
func TestClaimIsToldTheHolder(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	req := a.request(t.Name())
	lease := a.takes(req)
	a.claims.Leave(lease.(*claim)) // as if it had not come
	again := a.takes(req)
	require.Greater(t, again.Grant().Token, lease.Grant().Token)
	require.Equal(t, driver.Status{Owner: req.Owner}, a.waits(req).Holder, "it has it already")
	h := b.waits(b.request(t.Name()))
	require.Equal(t, driver.Status{Owner: req.Owner}, h.Holder)
	require.InDelta(t, 10*time.Second, h.ExpiresIn, 1e9)
	frees(t, again)
	require.Equal(t, driver.Status{}, a.waits(a.request(t.Name())).Holder, "nobody has it, and somebody else is to have it next")
}

// In a Cluster there is one last token for each slot in use, which has its slot.
func TestTokensInACluster(t *testing.T) {
	t.Parallel()
	c := servers.NeedCluster(t, servers.RedisOptions{})
	for i := range 200 {
		key := defaultLayout.Key(fmt.Sprint("name ", i))
		last := redisscript.LastToken(key, true)
		require.Equal(t, do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", key), do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", last), last)
	}
	b, err := openURL(t.Context(), clusterURL(c))
	require.NoError(t, err)
	n := &node{Backend: b.(*Backend), t: t, name: "a"}
	defer func() { _ = n.Backend.Close() }()
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

// What a server keeps does not grow with the names that were locked. LOCKPORT_TEST_NAMES=1000000 takes a minute.
func TestNamesLeaveNothing(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n := newNode(t, s.URL(), "a", Options{})
	most, _ := strconv.Atoi(os.Getenv("LOCKPORT_TEST_NAMES"))
	most = max(most, 20_000)
	used := func() int64 {
		do(t, s, "MEMORY", "PURGE")
		time.Sleep(100 * time.Millisecond)
		info, err := s.Info(t.Context(), "memory")
		require.NoError(t, err)
		bytes, err := strconv.ParseInt(info["used_memory"], 10, 64)
		require.NoError(t, err)
		return bytes
	}
	const most64 = 64 // at once
	done, first := 0, int64(0)
	for _, names := range []int{10, 10_000, most} {
		results := make(chan error)
		for g := range most64 {
			go func() {
				for i := done + g; i < names; i += most64 {
					req := n.request(fmt.Sprint(t.Name(), i))
					if i%10 == 0 { // left to expire
						req.TTL = 20 * time.Millisecond
					}
					lease, err := n.try(req)
					switch {
					case err == nil && i%10 == 0:
						n.claims.Leave(lease.(*claim))
					case err == nil:
						err = lease.Release(t.Context())
					}
					if err != nil {
						results <- err
						return
					}
				}
				results <- nil
			}()
		}
		for range most64 {
			require.NoError(t, <-results)
		}
		done = names
		require.Eventually(t, func() bool { return do(t, s, "DBSIZE") == int64(1) }, time.Minute, 10*time.Millisecond, "the last token of the server is left")
		bytes := used()
		if first == 0 {
			first = bytes
		}
		t.Logf("after %d names: %d bytes", names, bytes)
		require.Less(t, bytes-first, int64(500_000), "the buffers of 64 clients, and scripts")
	}
}
