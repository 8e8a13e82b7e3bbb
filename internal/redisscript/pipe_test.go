package redisscript

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// echo returns its argument.
var echo = NewScript("return ARGV[1]")

func echoCall(i int) Call { return echo.Call([]string{fmt.Sprint("k", i)}, i) }

// pipeOf makes a pipe with its own client and go-redis' defaults: contexts ignored, retries on. Claims wait for replicas.
func pipeOf(t *testing.T, rawURL string, replicas int) *Pipe {
	o := peer.Must(goredis.ParseURL(rawURL))(t)
	o.DialerRetries = 1 // several are slow, and logged
	client := goredis.NewClient(o)
	p := NewPipe(client, replicas, time.Second)
	t.Cleanup(func() { _ = client.Close() })
	return p
}

var does = servers.Do

// throughProxies makes a proxy to each address, and a dialer that reaches the addresses through them.
func throughProxies(t *testing.T, addrs ...string) (proxies map[string]*faultproxy.Proxy, dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	proxies = make(map[string]*faultproxy.Proxy)
	for _, addr := range addrs {
		proxies[addr] = peer.Proxy(t, addr)
	}
	return proxies, func(ctx context.Context, network, addr string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(addr) // redirections need not name the host
		return new(net.Dialer).DialContext(ctx, network, proxies["127.0.0.1:"+port].Addr())
	}
}

// go-redis never resends a command with an unknown outcome, alone or in a pipeline. A Cluster client retries more often than a single-server one.
func TestPipeSendsOnce(t *testing.T) {
	single, cluster := servers.SharedRedis(t), servers.NeedCluster(t, servers.RedisOptions{})
	proxies, dial := throughProxies(t, append(cluster.Addrs(), single.Addr())...)
	count := NewScript("return redis.call('INCR', KEYS[1])")
	call := count.Call([]string{t.Name()})
	for _, client := range []goredis.UniversalClient{
		goredis.NewClient(&goredis.Options{Addr: single.Addr(), Dialer: dial}),
		goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: dial}),
	} {
		p := NewPipe(client, 0, 0)
		require.NoError(t, p.Run(t.Context(), call).Err)
		for i, run := range []func() Reply{
			func() Reply { return p.Run(t.Context(), call) },
			func() Reply { return p.RunAll(t.Context(), []Call{call})[0] },
		} {
			for _, proxy := range proxies {
				proxy.DropReply(count.Names)
			}
			require.ErrorIs(t, run().Err, driver.ErrUnknown)
			for _, proxy := range proxies {
				proxy.Restore()
			}
			require.Equal(t, fmt.Sprint(i+2), client.Get(t.Context(), t.Name()).Val())
		}
		client.Del(t.Context(), t.Name())
		_ = client.Close()
	}
}

// A request without a connection is known to be unsent, alone or with others. It has the error of the connection.
func TestPipeKnowsWhatItHasNotSent(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{Users: []string{"some on >secret ~* &* +@all"}})
	for rawURL, want := range map[string]struct {
		class error
		what  string
	}{
		"redis://127.0.0.1:1":      {driver.ErrUnavailable, "is it running"},
		s.UserURL("some", "wrong"): {driver.ErrRefused, "wrong user name or password"},
	} {
		p := pipeOf(t, rawURL, 0)
		for _, r := range append(p.RunAll(t.Context(), []Call{echoCall(1), echoCall(2)}), p.Run(t.Context(), echoCall(1))) {
			peer.SaysOneLine(t, r.Err, want.class, want.what)
		}
		require.NoError(t, p.Close())
		require.ErrorIs(t, p.Run(t.Context(), echoCall(1)).Err, goredis.ErrClosed)
		require.ErrorIs(t, p.again(t.Context(), echoCall(1)).Err, driver.ErrUnknown, "the first request may still run")
	}
}

// clusterOf makes a client that believes that the nodes share the slots.
func clusterOf(o goredis.ClusterOptions, addrs ...string) *goredis.ClusterClient {
	var all []goredis.ClusterSlot
	for i, addr := range addrs {
		all = append(all, goredis.ClusterSlot{Start: slots * i / len(addrs), End: slots*(i+1)/len(addrs) - 1, Nodes: []goredis.ClusterNode{{Addr: addr}}})
	}
	o.ClusterSlots = func(context.Context) ([]goredis.ClusterSlot, error) { return all, nil }
	return goredis.NewClusterClient(&o)
}

// A Pipe does not remember all nodes that a Cluster ever had.
func TestNodesAreBounded(t *testing.T) {
	p := NewPipe(goredis.NewClusterClient(&goredis.ClusterOptions{}), 0, 0)
	for i := range 2 * maxNodes {
		p.cluster = clusterOf(goredis.ClusterOptions{}, fmt.Sprint("127.0.0.1:", i+1))
		require.NoError(t, peer.ErrOf(p.nodeOf(t.Context(), echoCall(1))))
		require.NoError(t, p.cluster.Close())
		require.LessOrEqual(t, len(p.nodes), maxNodes)
	}
}

// A node that got a redirected call and did not answer may have run it.
func TestRedirectedCallsWithoutAnAnswer(t *testing.T) {
	cluster := servers.NeedCluster(t, servers.RedisOptions{})
	proxies, dial := throughProxies(t, cluster.Addrs()...)
	owner, other := cluster.Nodes[0], cluster.Nodes[1]
	const key, slot = "3560", 0
	require.EqualValues(t, slot, does(t, owner, "CLUSTER", "KEYSLOT", key))
	redirected := func(from, to *servers.Redis) {
		t.Helper()
		client := clusterOf(goredis.ClusterOptions{Dialer: dial}, from.Addr())
		defer client.Close()
		dropped := proxies[to.Addr()].DropReply(echo.Names)
		for _, r := range NewPipe(client, 0, 0).RunAll(t.Context(), []Call{echo.Call([]string{key}, 1), echo.Call([]string{key}, 2)}) {
			require.ErrorIs(t, r.Err, driver.ErrUnknown)
		}
		<-dropped
	}
	redirected(other, owner) // MOVED
	does(t, other, "CLUSTER", "SETSLOT", slot, "IMPORTING", does(t, owner, "CLUSTER", "MYID"))
	does(t, owner, "CLUSTER", "SETSLOT", slot, "MIGRATING", does(t, other, "CLUSTER", "MYID"))
	redirected(owner, other) // ASK
}
