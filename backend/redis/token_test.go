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
	for i, name := range []string{"x", "x", "y"} {
		require.Equal(t, ahead+uint64(i)+1, n.takesToken(name))
	}
	leases, _ := n.many(100) // many draw in one script
	seen := make(map[uint64]bool)
	for _, l := range leases {
		require.Greater(t, l.Grant().Token, ahead+3)
		seen[l.Grant().Token] = true
	}
	require.Len(t, seen, len(leases))
	n.freesAll(leases)

	older := ahead + 1_000_000
	do(t, s, "SET", keys.token, older, "EX", 604800) // an earlier release, before the clock was set back
	require.Equal(t, older+1, n.takesToken("x"))
	require.Equal(t, older+2, n.takesToken("y"))
	require.Equal(t, older+3, n.takesToken("x"), "also once that is forgotten")
	require.Empty(t, keysOf(t, s, "x"))

	do(t, s, "FLUSHALL")
	require.Greater(t, n.takesToken("x"), first, "all data are lost")

	do(t, s, "SET", keys.last, driver.MaxToken)
	_, err := n.try(n.request("x"))
	require.ErrorIs(t, err, driver.ErrRefused)
	require.ErrorContains(t, err, "run out")
	require.Equal(t, int64(0), do(t, s, "EXISTS", keys.lock), "an error grants nothing")
}

// A holder's token is known for as long as the lock is held: to the claim itself if its reply was lost, to Inspect, and to claims that find the name held.
func TestTokenOfAHolder(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	req := a.request(t.Name())
	lease := a.takes(req)
	b.takesToken(t.Name() + "2") // the server's last token is another now
	keys := makeKeys(defaultLayout.Key(t.Name()))
	do(t, s, "PEXPIRE", keys.token, 5000)
	for range tokenEvery {
		_, err := a.renews(lease)
		require.NoError(t, err)
	}
	require.Greater(t, do(t, s, "PTTL", keys.token), int64(39_000), "it is renewed with the lock")
	require.Equal(t, lease.Grant().Token, a.takes(req).Grant().Token)
	st, err := b.Inspect(t.Context(), t.Name())
	require.NoError(t, err)
	require.Equal(t, []any{req.Owner, false, lease.Grant().Token}, []any{st.Owner, st.Foreign, st.Token})
	require.Equal(t, time.UnixMicro(int64(st.Token)), st.Since)
	h := b.waits(b.request(t.Name()))
	require.Equal(t, driver.Status{Owner: req.Owner, Token: st.Token, Since: st.Since}, h.Holder)
	frees(t, lease)
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
					lease, err := n.try(n.request(fmt.Sprint(t.Name(), i)))
					if err == nil {
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
		bytes := used()
		if first == 0 {
			first = bytes
		}
		t.Logf("after %d names: %d keys, %d bytes", names, do(t, s, "DBSIZE"), bytes)
		require.Equal(t, int64(1), do(t, s, "DBSIZE"), "the last token of the server")
		require.Less(t, bytes-first, int64(500_000), "the buffers of 64 clients, and scripts")
	}
}
