package redis

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The floor: the bare commands that a lock needs, without token and wake-up.
const bareRelease = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`

// cycle is one acquisition and its release by goroutine g.
type cycle func(ctx context.Context, g int) error

// bench is what the benchmarks share.
type bench struct {
	client  *goredis.Client
	backend *Backend
	script  *goredis.Script
}

func newBench(b *testing.B) *bench {
	s := servers.NeedRedis(b, servers.RedisOptions{})
	o, err := goredis.ParseURL(s.URL())
	require.NoError(b, err)
	o.ContextTimeoutEnabled = true
	client := goredis.NewClient(o)
	backend, err := NewBackend(client, Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _, _ = backend.Close(), client.Close() })
	script := goredis.NewScript(bareRelease)
	require.NoError(b, script.Load(b.Context(), client).Err())
	return &bench{client, backend, script}
}

func ownerOf(g int) string { return fmt.Sprintf("%032x:bench/1/bench/0", g+1) }

// bare is the floor through the same client, a connection for each goroutine that needs one.
func (x *bench) bare() cycle {
	return func(ctx context.Context, g int) error {
		key, owner := "bare:"+strconv.Itoa(g), ownerOf(g)
		if err := x.client.Process(ctx, goredis.NewStatusCmd(ctx, "set", key, owner, "nx", "px", "15000")); err != nil {
			return err
		}
		return x.client.Process(ctx, goredis.NewCmd(ctx, "evalsha", x.script.Hash(), "1", key, owner))
	}
}

// ours is the driver.
func (x *bench) ours() cycle {
	return func(ctx context.Context, g int) error {
		lease, err := x.backend.TryAcquire(ctx, driver.Request{Name: strconv.Itoa(g), Owner: ownerOf(g), TTL: 15 * time.Second, Queue: true})
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
}

// run makes n cycles on goroutines, each on a name of its own, and returns how long that took.
func run(b *testing.B, c cycle, goroutines, n int) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range (n + goroutines - 1 - g) / goroutines {
				if err := c(ctx, g); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// pipelined is the floor for many goroutines: n cycles on as many names, in pipelines of all names at once.
func (x *bench) pipelined(b *testing.B, names, n int) time.Duration {
	ctx := context.Background()
	start := time.Now()
	for done := 0; done < n; done += names {
		for _, release := range []bool{false, true} {
			p := x.client.Pipeline()
			for g := range names {
				key, owner := "bare:"+strconv.Itoa(g), ownerOf(g)
				if release {
					_ = p.Process(ctx, goredis.NewCmd(ctx, "evalsha", x.script.Hash(), "1", key, owner))
				} else {
					_ = p.Process(ctx, goredis.NewStatusCmd(ctx, "set", key, owner, "nx", "px", "15000"))
				}
			}
			if _, err := p.Exec(ctx); err != nil {
				b.Error(err)
			}
		}
	}
	return time.Since(start)
}

// BenchmarkCycle is an uncontended acquisition and release, alternating with the floor in one run.
func BenchmarkCycle(b *testing.B) {
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			x := newBench(b)
			bare, ours := x.bare(), x.ours()
			run(b, bare, goroutines, 4*goroutines)
			run(b, ours, goroutines, 4*goroutines)
			var floor, own, piped time.Duration
			b.ResetTimer()
			for left := b.N; left > 0; left -= 2000 {
				n := min(left, 2000)
				b.StopTimer()
				floor += run(b, bare, goroutines, n)
				if goroutines > 1 {
					piped += x.pipelined(b, goroutines, n)
				}
				b.StartTimer()
				own += run(b, ours, goroutines, n)
			}
			b.ReportMetric(float64(floor.Nanoseconds())/float64(b.N), "floor-ns/op")
			b.ReportMetric(float64(own)/float64(floor), "ratio")
			if goroutines > 1 {
				b.ReportMetric(float64(piped.Nanoseconds())/float64(b.N), "pipelined-floor-ns/op")
				b.ReportMetric(float64(piped)/float64(own), "of-pipelined-floor")
			}
		})
	}
}
