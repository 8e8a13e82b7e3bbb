package bench

import (
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/servers"
)

// BenchmarkRedlock is an uncontended acquisition and release on five Redis servers.
func BenchmarkRedlock(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			nodes := fiveRedis(b)
			takeTurns(b, goroutines, []library{lockportRedlock(b, nodes), redsyncRedlock(nodes)})
		})
	}
}

// fiveRedis are clients of five servers, with go-redis' own settings.
func fiveRedis(b *testing.B) []*goredis.Client {
	var nodes []*goredis.Client
	for range 5 {
		s := servers.NeedRedis(b, servers.RedisOptions{Own: true})
		o, err := goredis.ParseURL(s.URL())
		require.NoError(b, err)
		client := goredis.NewClient(o)
		b.Cleanup(func() { _ = client.Close() })
		nodes = append(nodes, client)
	}
	return nodes
}
