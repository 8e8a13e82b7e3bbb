package redlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

func ownerOf(g int) string { return fmt.Sprintf("%032x:bench/1/bench/0", g+1) }

// BenchmarkCycle is an uncontended acquisition and release on five nodes, alternating with the floor: as many PINGs to each of them at once.
func BenchmarkCycle(b *testing.B) {
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			x := newBench(b, 5)
			ours := func(ctx context.Context, g int) error {
				lease, err := x.backend.TryAcquire(ctx, driver.Request{Name: strconv.Itoa(g), Owner: ownerOf(g), TTL: 15 * time.Second, Queue: true})
				if err != nil {
					return err
				}
				return lease.Release(ctx)
			}
			alternate(b, x.pings, ours, goroutines)
		})
	}
}

// BenchmarkLocker is the same as a user sees it.
func BenchmarkLocker(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			x := newBench(b, 5)
			c, err := lockport.New(x.backend, lockport.Logger(nil))
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, c.Close()) })
			alternate(b, x.pings, func(ctx context.Context, g int) error {
				l, err := c.Acquire(ctx, strconv.Itoa(g))
				if err != nil {
					return err
				}
				return l.Release(ctx)
			}, goroutines)
		})
	}
}

// BenchmarkFaultyNode is the cycle with one node of five hung, or dead, after as many with all well: p99 and median in µs.
func BenchmarkFaultyNode(b *testing.B) {
	for _, fault := range []string{"hung", "dead"} {
		b.Run(fault, func(b *testing.B) {
			x := newBench(b, 5)
			var all []float64
			measure := func(n int) (p50, p99 float64) {
				all = all[:0]
				for range n {
					start := time.Now()
					lease, err := x.backend.TryAcquire(b.Context(), driver.Request{Name: "x", Owner: ownerOf(len(all)), TTL: 15 * time.Second, Queue: true})
					require.NoError(b, err)
					all = append(all, float64(time.Since(start).Nanoseconds())/1e3)
					require.NoError(b, lease.Release(b.Context()))
				}
				slices.Sort(all)
				return all[n/2], all[n*99/100]
			}
			n := max(b.N, 2000)
			measure(100)
			well50, well99 := measure(n)
			if fault == "hung" {
				require.NoError(b, x.servers[2].Freeze())
			} else {
				require.NoError(b, x.servers[2].Kill())
			}
			ill50, ill99 := measure(n)
			if fault == "hung" {
				require.NoError(b, x.servers[2].Thaw())
			}
			b.ReportMetric(well50, "well-p50-µs")
			b.ReportMetric(well99, "well-p99-µs")
			b.ReportMetric(ill50, "ill-p50-µs")
			b.ReportMetric(ill99, "ill-p99-µs")
		})
	}
}

type bench struct {
	servers []*servers.Redis
	clients []*goredis.Client
	backend *Backend
}

func newBench(b *testing.B, n int) *bench {
	x := &bench{}
	for range n {
		s := servers.NeedRedis(b, servers.RedisOptions{Own: true})
		o, err := goredis.ParseURL(s.URL())
		require.NoError(b, err)
		client := goredis.NewClient(o)
		b.Cleanup(func() { _ = client.Close() })
		x.servers, x.clients = append(x.servers, s), append(x.clients, client)
	}
	var err error
	x.backend, err = NewBackend(x.clients, Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = x.backend.Close() })
	return x
}

// pings is the floor: two PINGs to each node, the five at once, each by a goroutine of its own.
func (x *bench) pings(ctx context.Context, _ int) error {
	errs := make(chan error, len(x.clients))
	for range 2 {
		for _, c := range x.clients {
			go func() { errs <- c.Ping(ctx).Err() }()
		}
		for range x.clients {
			if err := <-errs; err != nil {
				return err
			}
		}
	}
	return nil
}

type cycle func(ctx context.Context, g int) error

// alternate runs floor and ours in turns. The ratio is the median over many short turns, since neighbours disturb some of them.
func alternate(b *testing.B, floor, ours cycle, goroutines int) {
	run(b, floor, goroutines, 4*goroutines)
	run(b, ours, goroutines, 4*goroutines)
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	var ratios, floors []float64
	for left := b.N; left > 0; left -= 200 {
		n := min(left, 200)
		f := run(b, floor, goroutines, n)
		start := time.Now()
		b.StartTimer()
		run(b, ours, goroutines, n)
		b.StopTimer()
		ratios = append(ratios, float64(time.Since(start))/float64(f))
		floors = append(floors, float64(f.Nanoseconds())/float64(n))
	}
	b.ReportMetric(median(floors), "pings-ns/op")
	b.ReportMetric(median(ratios), "ratio")
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

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
