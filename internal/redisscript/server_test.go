package redisscript

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// A node of a cluster that gets other addresses leaves no pipe behind, and no connection.
func TestPipesOfNodesThatLeft(t *testing.T) {
	s := servers.SharedRedis(t)
	var node atomic.Int64
	var mu sync.Mutex
	open := make(map[string]int) // connections by address
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) {
			return []goredis.ClusterSlot{{End: 16383, Nodes: []goredis.ClusterNode{{Addr: fmt.Sprintf("10.0.0.%d:6379", node.Load())}}}}, nil
		},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			open[addr]++
			return &countedConn{Conn: conn, closed: sync.OnceFunc(func() {
				mu.Lock()
				defer mu.Unlock()
				open[addr]--
			})}, nil
		},
	})
	server := NewServer(client, 0, 0)
	const last = 5
	for n := range last {
		node.Store(int64(n + 1))
		require.Eventually(t, func() bool {
			client.ReloadState(t.Context())
			c, err := client.MasterForKey(t.Context(), "k")
			return err == nil && c.Options().Addr == fmt.Sprintf("10.0.0.%d:6379", n+1)
		}, 20*time.Second, 10*time.Millisecond)
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for i := range 10 {
					if r := server.Run(t.Context(), "k", echo, echoArgs(i), false); r.Err != nil {
						t.Error(r.Err)
					}
				}
			})
		}
		all.Wait()
		require.Eventually(t, func() bool {
			server.mu.Lock()
			defer server.mu.Unlock()
			return len(server.pipes) == 1
		}, 10*time.Second, time.Millisecond, "a pipe to a node that has left is kept")
	}
	server.Close()
	require.NoError(t, client.Close())
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range open {
			if n != 0 {
				return false
			}
		}
		return len(open) == last
	}, 10*time.Second, time.Millisecond, "connections are left open")
}

// countedConn tells that it is closed.
type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
