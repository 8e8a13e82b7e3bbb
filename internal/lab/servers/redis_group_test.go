package servers

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReplica(t *testing.T) {
	master := NeedRedis(t, RedisOptions{Own: true, Password: "secret"})
	do(t, master, "SET", "k", "before")
	replica := NeedReplica(t, master)
	require.Equal(t, "before", do(t, replica.Redis, "GET", "k"))
	info, err := master.Info(t.Context(), "replication")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(replica.Addr())
	require.NoError(t, err)
	require.Contains(t, info["slave0"], "ip=127.0.0.1,port="+port, "the master knows the replica by its own address, not the link's")

	for value, fault := range map[string]func(){
		"late":    func() { replica.Link.Delay(100 * time.Millisecond) },
		"unheard": replica.Link.BlackholeReplies,
	} {
		fault()
		do(t, master, "SET", "k", value)
		require.NotEqual(t, value, do(t, replica.Redis, "GET", "k"))
		if value == "unheard" {
			replica.Link.Restore()
		}
		require.NoError(t, replica.WaitSync(t.Context()))
		require.Equal(t, value, do(t, replica.Redis, "GET", "k"))
		replica.Link.Restore()
	}
}

func TestFollow(t *testing.T) {
	first, second := NeedRedis(t, RedisOptions{Own: true}), NeedRedis(t, RedisOptions{Own: true})
	do(t, first, "SET", "k", "v")
	do(t, second, "SET", "other", "v")
	require.NoError(t, second.Follow(t.Context(), first, first.Addr()))
	require.Equal(t, "v", do(t, second, "GET", "k"))
	require.Nil(t, do(t, second, "GET", "other"))

	require.NoError(t, second.Promote(t.Context()))
	do(t, second, "SET", "k", "w")
	require.NoError(t, first.Follow(t.Context(), second, second.Addr()))
	require.Equal(t, "w", do(t, first, "GET", "k"), "the other way round")
	require.Error(t, first.Follow(t.Context(), second, "nowhere"))
}

func TestReplicaHearsAtOnce(t *testing.T) {
	master := NeedRedis(t, RedisOptions{Own: true})
	for range 5 {
		replica := NeedReplica(t, master)
		do(t, master, "INCR", "k")
		require.NoError(t, master.Kill())
		require.NoError(t, replica.waitInfo(t.Context(), "replication", func(info map[string]string) error {
			if info["master_link_status"] != "down" {
				return errors.New("still connected")
			}
			return nil
		}))
		require.Equal(t, "1", do(t, replica.Redis, "GET", "k"), "a master that dies just after the answer")
		require.NoError(t, replica.Close())
		require.NoError(t, master.Restart(t.Context()))
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := NeedSentinel(t, SentinelOptions{
		DownAfter: undisturbed, Redis: RedisOptions{TLS: true, Password: `se "cret`, Users: []string{"alice on >a ~* &* +@all"}},
	})
	require.Len(t, s.Nodes, 2)
	require.Len(t, s.Addrs(), 3)
	do(t, s.Nodes[0], "SET", "k", "v")
	for _, replica := range s.Nodes[1:] {
		require.NoError(t, waitSync(t.Context(), s.Nodes[0], replica))
	}
	master, err := s.Master(t.Context())
	require.NoError(t, err)
	require.Same(t, s.Nodes[0], master)

	for _, sentinel := range s.Sentinels {
		require.Contains(t, do(t, sentinel, "SENTINEL", "CKQUORUM", s.MasterName()), "OK 3 usable Sentinels")
		replicas := do(t, sentinel, "SENTINEL", "REPLICAS", s.MasterName())
		require.Len(t, replicas, len(s.Nodes)-1)
	}
	_, err = s.successor(t.Context(), master)
	require.ErrorContains(t, err, "still the master")

	killed, err := s.KillMaster(t.Context())
	require.NoError(t, err)
	require.Same(t, master, killed)
	require.False(t, killed.proc.alive())
	next, err := s.WaitFailover(t.Context(), killed)
	require.NoError(t, err)
	require.NotSame(t, killed, next)
	require.Equal(t, "v", do(t, next, "GET", "k"))
	do(t, next, "SET", "k", "w")

	require.NoError(t, s.Sentinels[0].Kill())
	require.NoError(t, s.Sentinels[1].Freeze())
	require.NoError(t, s.Mend(t.Context()))
	require.Equal(t, "w", do(t, killed, "GET", "k"), "it replicates the new master")
	master, err = s.Master(t.Context())
	require.NoError(t, err)
	require.Same(t, next, master)
	_, err = s.KillMaster(t.Context())
	require.NoError(t, err)
	_, err = s.WaitFailover(t.Context(), next)
	require.NoError(t, err, "the set can lose its master again")
}

// undisturbed is a DownAfter in which a node is not thought down because the machine is busy: the tests say who is the master when.
const undisturbed = 3 * time.Second

func TestCluster(t *testing.T) {
	t.Parallel()
	for _, o := range []RedisOptions{{}, {TLS: true, Password: "secret"}} {
		c := NeedCluster(t, o)
		require.Len(t, c.Addrs(), 3)
		served := 0
		for _, node := range c.Nodes {
			if _, err := node.Do(t.Context(), "SET", "k", "v"); err != nil {
				require.ErrorContains(t, err, "MOVED 7629 127.0.0.1:")
				continue
			}
			served++
		}
		require.Equal(t, 1, served)
	}
}
