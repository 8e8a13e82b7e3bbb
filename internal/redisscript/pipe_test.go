package redisscript

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
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

func does(t *testing.T, s *servers.Redis, args ...any) any {
	t.Helper()
	reply, err := s.Do(t.Context(), args...)
	require.NoError(t, err)
	return reply
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

// A request without a connection is known to be unsent.
func TestPipeKnowsWhatItHasNotSent(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
	defer func() { _ = client.Close() }()
	p := NewPipe(client, 0, 0)
	require.ErrorIs(t, p.Run(t.Context(), echoCall(1)).Err, driver.ErrUnavailable)
	for _, r := range p.RunAll(t.Context(), []Call{echoCall(1), echoCall(2)}) {
		require.ErrorIs(t, r.Err, driver.ErrUnavailable)
	}
	p.Close()
	require.ErrorIs(t, p.Run(t.Context(), echoCall(1)).Err, goredis.ErrClosed)
}

// A Pipe does not remember all addresses that a Cluster's nodes ever had.
func TestNodesAreBounded(t *testing.T) {
	p := NewPipe(goredis.NewClusterClient(&goredis.ClusterOptions{}), 0, 0)
	for i := range 2 * maxNodes {
		addr := fmt.Sprint("127.0.0.1:", i+1)
		p.cluster = goredis.NewClusterClient(&goredis.ClusterOptions{ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) {
			return []goredis.ClusterSlot{{End: slots - 1, Nodes: []goredis.ClusterNode{{Addr: addr}}}}, nil
		}})
		_, err := p.nodeOf(t.Context(), echoCall(1))
		require.NoError(t, err)
		require.NoError(t, p.cluster.Close())
		require.LessOrEqual(t, len(p.nodes), maxNodes)
	}
}

// Calls on a connection that the server refuses have its error, alone or together.
func TestPipeReportsARefusedConnection(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{Users: []string{"some on >secret ~* &* +@all"}})
	p := pipeOf(t, optionsOf(t, s.UserURL("some", "wrong")))
	require.ErrorIs(t, p.Run(t.Context(), echoCall(1)).Err, driver.ErrRefused)
	for _, r := range p.RunAll(t.Context(), []Call{echoCall(1), echoCall(2)}) {
		require.ErrorIs(t, r.Err, driver.ErrRefused)
		require.ErrorContains(t, r.Err, "wrong user name or password")
	}
}

// fakeNode answers commands; "hang up" closes the connection.
func fakeNode(t *testing.T, answer func(command string) string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	serve := func(c net.Conn) {
		defer c.Close()
		r := bufio.NewReader(c)
		number := func() (int, error) {
			s, err := r.ReadString('\n')
			if err != nil {
				return 0, err
			}
			return strconv.Atoi(strings.TrimSpace(s[1:]))
		}
		for {
			n, err := number()
			command := ""
			for i := 0; i < n && err == nil; i++ {
				var size int
				if size, err = number(); err == nil {
					text := make([]byte, size+2)
					if _, err = io.ReadFull(r, text); i == 0 {
						command = strings.ToLower(string(text[:size]))
					}
				}
			}
			if err != nil {
				return
			}
			reply := answer(command)
			if reply == "hang up" {
				return
			}
			_, _ = io.WriteString(c, reply)
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// A node that got a redirected call and did not answer may have run it.
func TestRedirectedCallsWithoutAnAnswer(t *testing.T) {
	second := fakeNode(t, func(command string) string {
		switch command {
		case "asking":
			return ""
		case "evalsha":
			time.Sleep(50 * time.Millisecond) // all of the pipeline has arrived
			return "hang up"
		}
		return "-ERR unknown command\r\n"
	})
	for _, word := range []string{"ASK", "MOVED"} {
		first := fakeNode(t, func(command string) string {
			if command == "evalsha" {
				return "-" + word + " 0 " + second + "\r\n"
			}
			return "-ERR unknown command\r\n"
		})
		client := goredis.NewClusterClient(&goredis.ClusterOptions{DisableIdentity: true, ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) {
			return []goredis.ClusterSlot{{End: slots - 1, Nodes: []goredis.ClusterNode{{Addr: first}}}}, nil
		}})
		for _, r := range NewPipe(client, 0, 0).RunAll(t.Context(), []Call{echoCall(1), echoCall(2)}) {
			require.ErrorIs(t, r.Err, driver.ErrUnknown, word)
		}
		_ = client.Close()
	}
}
