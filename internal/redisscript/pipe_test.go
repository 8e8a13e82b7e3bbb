package redisscript

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// echo returns its argument.
var echo = NewScript("return ARGV[1]")

func echoArgs(i int) []any { return echo.Call([]string{fmt.Sprint("k", i)}, i) }

func optionsOf(t *testing.T, rawURL string) *goredis.Options {
	o, err := goredis.ParseURL(rawURL)
	require.NoError(t, err)
	return o
}

// pipeOf makes a pipe with its own client and go-redis' defaults: contexts ignored, retries on.
func pipeOf(t *testing.T, o *goredis.Options) *Pipe {
	client := goredis.NewClient(o)
	p := NewPipe(client, 0, 0)
	t.Cleanup(func() { p.Close(); _ = client.Close() })
	return p
}

// proxied makes a pipe to a real server through a proxy.
func proxied(t *testing.T) (*Pipe, *faultproxy.Proxy, *servers.Redis) {
	s := servers.SharedRedis(t)
	proxy, err := faultproxy.New(s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	o := optionsOf(t, s.URL())
	o.Addr = proxy.Addr()
	return pipeOf(t, o), proxy, s
}

func does(t *testing.T, s *servers.Redis, args ...any) any {
	t.Helper()
	reply, err := s.Do(t.Context(), args...)
	require.NoError(t, err)
	return reply
}

func TestPipeGivesEachItsReply(t *testing.T) {
	p, proxy, _ := proxied(t)
	var wg sync.WaitGroup
	for g := range 50 {
		wg.Go(func() {
			for i := range 40 {
				n := 100*g + i
				r := p.Run(t.Context(), echo, echoArgs(n))
				if r.Err != nil || r.Value != fmt.Sprint(n) {
					t.Errorf("reply %v, %v, want %d", r.Value, r.Err, n)
				}
			}
		})
	}
	wg.Wait()
	var args [][]any
	for i := range 2*maxPipeline + 7 {
		args = append(args, echoArgs(i))
	}
	before := proxy.Requests()
	for i, r := range p.RunAll(t.Context(), echo, args) {
		require.NoError(t, r.Err)
		require.Equal(t, fmt.Sprint(i), r.Value)
	}
	require.Less(t, proxy.Requests()-before, int64(40), "a few pipelines, which the network may cut")
}

// Of many calls, those whose script the server does not know go again with its source. Each call gets its own reply.
func TestPipeLoadsScripts(t *testing.T) {
	p, _, s := proxied(t)
	flushed := NewScript("return 'flushed' .. ARGV[1]")
	for range 2 {
		does(t, s, "SCRIPT", "FLUSH")
		require.Equal(t, Reply{Value: "flushed1"}, p.Run(t.Context(), flushed, flushed.Call([]string{"k"}, 1)))
		does(t, s, "SCRIPT", "FLUSH")
		for i, r := range p.RunAll(t.Context(), flushed, [][]any{flushed.Call([]string{"k"}, 0), flushed.Call([]string{"l"}, 1)}) {
			require.Equal(t, Reply{Value: fmt.Sprint("flushed", i)}, r)
		}
	}
}

// A call given up before it was sent certainly had no effect.
func TestPipeDoesNotSendForThoseWhoLeft(t *testing.T) {
	p, proxy, _ := proxied(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range append(p.RunAll(ctx, echo, [][]any{echoArgs(1)}), p.Run(ctx, echo, echoArgs(1))) {
		require.ErrorIs(t, r.Err, driver.ErrUnavailable)
		require.ErrorIs(t, r.Err, context.Canceled)
	}
	require.Zero(t, proxy.Requests())
}

// go-redis never resends a command with an unknown outcome, alone or in a pipeline. A Cluster client retries more often than a single-server one.
func TestPipeSendsOnce(t *testing.T) {
	single, cluster := servers.SharedRedis(t), servers.NeedCluster(t, servers.RedisOptions{})
	proxies := make(map[string]*faultproxy.Proxy)
	for _, addr := range append(cluster.Addrs(), single.Addr()) {
		proxies[addr] = peer.Proxy(t, addr)
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, proxies[addr].Addr())
	}
	count := NewScript("return redis.call('INCR', KEYS[1])")
	args := count.Call([]string{t.Name()})
	for _, client := range []goredis.UniversalClient{
		goredis.NewClient(&goredis.Options{Addr: single.Addr(), Dialer: dial}),
		goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: dial}),
	} {
		p := NewPipe(client, 0, 0)
		require.NoError(t, p.Run(t.Context(), count, args).Err)
		for i, run := range []func() Reply{
			func() Reply { return p.Run(t.Context(), count, args) },
			func() Reply { return p.RunAll(t.Context(), count, [][]any{args})[0] },
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

// A request without a connection is known to be unsent.
func TestPipeKnowsWhatItHasNotSent(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	defer func() { _ = client.Close() }()
	p := NewPipe(client, 0, 0)
	require.ErrorIs(t, p.Run(t.Context(), echo, echoArgs(1)).Err, driver.ErrUnavailable)
	for _, r := range p.RunAll(t.Context(), echo, [][]any{echoArgs(1), echoArgs(2)}) {
		require.ErrorIs(t, r.Err, driver.ErrUnavailable)
	}
	p.Close()
	require.ErrorIs(t, p.Run(t.Context(), echo, echoArgs(1)).Err, goredis.ErrClosed)
}
