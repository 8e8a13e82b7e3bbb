package redis

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// BenchmarkHandOff is the time from the release by one client to the grant of another that waits, alternating with the floor: a bare
// DEL and PUBLISH, and a SET NX PX by who receives it.
func BenchmarkHandOff(b *testing.B) {
	s := servers.NeedRedis(b, servers.RedisOptions{})
	x, y := newNode(b, s.URL(), "x", Options{}), newNode(b, s.URL(), "y", Options{})
	ctx := context.Background()
	sub := y.client.Subscribe(ctx, "bare")
	defer func() { _ = sub.Close() }()
	_, err := sub.Receive(ctx)
	require.NoError(b, err)
	messages := sub.Channel()
	bare := func() time.Duration {
		require.NoError(b, x.client.Set(ctx, "bare", 1, time.Minute).Err())
		got := make(chan time.Time)
		go func() {
			<-messages
			_ = y.client.Do(ctx, "set", "bare", 2, "nx", "px", 60_000).Err()
			got <- time.Now()
		}()
		start := time.Now()
		p := x.client.Pipeline()
		p.Del(ctx, "bare")
		p.Publish(ctx, "bare", "x")
		_, err := p.Exec(ctx)
		require.NoError(b, err)
		return (<-got).Sub(start)
	}
	ours := func() time.Duration {
		lease := x.takes(x.request("ours"))
		req := y.request("ours")
		y.waits(req)
		woken := make(chan struct{}, 10)
		got := make(chan time.Time)
		stop := y.Notify(req, func() { woken <- struct{}{} })
		defer stop()
		var next driver.Lease
		go func() {
			for next == nil {
				<-woken
				next, _ = y.try(req)
			}
			got <- time.Now()
		}()
		start := time.Now()
		frees(b, lease)
		took := (<-got).Sub(start)
		frees(b, next)
		return took
	}
	y.waitsSomewhere(x)
	var floors, own []float64
	for b.Loop() {
		floors = append(floors, float64(bare().Microseconds()))
		own = append(own, float64(ours().Microseconds()))
	}
	b.ReportMetric(median(floors), "floor-µs")
	b.ReportMetric(median(own), "ours-µs")
	b.ReportMetric(median(own)/median(floors), "ratio")
}
