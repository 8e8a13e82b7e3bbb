package redlock

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/redishook"
	"github.com/lockport/lockport/internal/lab/worker"
	"github.com/lockport/lockport/internal/redisscript"
)

// The hooks of each node's client, wrapped or not, see every command of a cycle, with one connection and go-redis' own retries.
func TestTheCallersClientsCarryEveryRequest(t *testing.T) {
	x := plainNodes(t, 3)
	var hooks []*redishook.Hook
	var clients []goredis.UniversalClient
	for _, s := range x.servers {
		c := goredis.NewClient(&goredis.Options{Addr: s.Addr(), PoolSize: 1})
		t.Cleanup(func() { _ = c.Close() })
		h := new(redishook.Hook)
		c.AddHook(h)
		hooks, clients = append(hooks, h), append(clients, struct{ goredis.UniversalClient }{c})
	}
	a := clientOf(t, peer.Must(NewBackend(clients, Options{}))(t), "a")
	x.each(t, false, refuses, 0)
	lease := a.Takes(a.Request("x"))
	lease.(*claim).waitsUntil(t, func() bool { return lease.(*claim).count(asked) == 0 })
	x.each(t, false, serves, 0)
	peer.Extends(t, a, lease)
	a.Abandons(a.Request("y"))
	peer.Shows(t, a, "x")
	x.full(t, "x") // also the node that refused the claim
	a.Frees(lease)
	x.empty(t, "x")
	require.ErrorIs(t, a.Break(t.Context(), "x", "somebody"), driver.ErrLost)
	for i, h := range hooks {
		for name, script := range map[string]*redisscript.Script{
			"acquire": redisscript.QuorumAcquire, "renew": redisscript.QuorumRenew, "release": redisscript.QuorumRelease,
			"abandon": redisscript.Abandon, "inspect": redisscript.Inspect, "break": redisscript.Break,
		} {
			require.Eventually(t, func() bool { return h.Take(script.Names) > 0 }, soon, time.Millisecond, "%s on node %d", name, i)
		}
	}
	require.True(t, hooks[0].Take(redisscript.QuorumRetake.Names) > 0)

	// Closing the backend leaves the caller's clients open, and closes those opened from a URL.
	require.NoError(t, a.Backend.Close())
	require.NoError(t, clients[0].Ping(t.Context()).Err())
	peer.Fails(t, a, a.Request("x"), driver.ErrUnavailable)
	own := peer.Opened(t, x.url())
	require.NoError(t, own.Close())
	require.EqualError(t, own.Close(), goredis.ErrClosed.Error(), "one line for three clients")
}

// A burst of claims on distant nodes that have not answered yet is no reason to rest: the nodes have half of their time to answer.
func TestBurstOnDistantNodes(t *testing.T) {
	x := plainNodes(t, 3)
	a := newClient(t, x.proxied()+"?node_timeout=20s", "a")
	a.TTL = time.Minute
	x.proxies.Each(func(p *faultproxy.Proxy) { p.Delay(75 * time.Millisecond) }) // each way
	require.NoError(t, cmp.Or(worker.AtOnce(make([]struct{}, 2*maxUnanswered), func(i int, _ struct{}) error {
		time.Sleep(time.Duration(i) * 500 * time.Microsecond)
		return peer.ErrOf(a.Try(a.Request(fmt.Sprint("x", i))))
	})...))
}
