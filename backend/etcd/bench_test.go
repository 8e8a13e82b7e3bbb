package etcd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// cycle is one acquisition and its release by goroutine g.
type cycle func(ctx context.Context, g int) error

// bench is what the benchmarks share.
type bench struct {
	client  *clientv3.Client
	backend *Backend
	session *concurrency.Session
}

func newBench(b *testing.B) *bench {
	client := newClient(b, servers.NeedEtcd(b, servers.EtcdOptions{}).URL())
	backend, err := NewBackend(client, Options{})
	require.NoError(b, err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(15))
	require.NoError(b, err)
	b.Cleanup(func() { _, _ = session.Close(), backend.Close() })
	return &bench{client, backend, session}
}

func ownerOf(g int) string { return fmt.Sprintf("%032x:bench/1/bench/0", g+1) }

// bare is the floor: the two requests that a lock needs, without a queue, through the same client.
func (x *bench) bare() cycle {
	return func(ctx context.Context, g int) error {
		key := "bare/" + strconv.Itoa(g) + "/" + ownerOf(g)[:32]
		r, err := x.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, "", clientv3.WithLease(x.session.Lease()))).Commit()
		if err != nil || !r.Succeeded {
			return fmt.Errorf("floor: %v, %w", r, err)
		}
		_, err = x.client.Delete(ctx, key)
		return err
	}
}

// mutex is client/v3/concurrency.
func (x *bench) mutex() cycle {
	return func(ctx context.Context, g int) error {
		m := concurrency.NewMutex(x.session, "mutex/"+strconv.Itoa(g))
		if err := m.Lock(ctx); err != nil {
			return err
		}
		return m.Unlock(ctx)
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

// locker is what a user sees.
func (x *bench) locker(b *testing.B) cycle {
	c, err := lockport.New(x.backend, lockport.Logger(nil))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	return func(ctx context.Context, g int) error {
		l, err := c.Acquire(ctx, strconv.Itoa(g))
		if err != nil {
			return err
		}
		return l.Release(ctx)
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

// BenchmarkCycle is an uncontended Acquire and Release, alternating in short turns with the bare requests and with concurrency.Mutex in one
// run. The ratios are medians over the turns, since neighbours disturb some of them.
func BenchmarkCycle(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			x := newBench(b)
			all := []cycle{x.locker(b), x.ours(), x.bare(), x.mutex()}
			for _, c := range all {
				run(b, c, goroutines, 4*goroutines)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.StopTimer()
			took := make([][]float64, len(all))
			turn := 50 * min(goroutines, 10)
			for left := b.N; left > 0; left -= turn {
				for i, c := range all {
					n := min(left, turn)
					start := time.Now()
					if i == 0 {
						b.StartTimer()
					}
					run(b, c, goroutines, n)
					b.StopTimer()
					took[i] = append(took[i], float64(time.Since(start).Nanoseconds())/float64(n))
				}
			}
			b.ReportMetric(median(took[2]), "floor-ns/op")
			b.ReportMetric(ratio(took[1], took[2]), "driver/floor")
			b.ReportMetric(ratio(took[0], took[2]), "lockport/floor")
			b.ReportMetric(ratio(took[3], took[0]), "mutex/lockport")
		})
	}
}

// ratio is the median of a's turns over b's.
func ratio(a, b []float64) float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] / b[i]
	}
	return median(all)
}

func median(all []float64) float64 {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}
