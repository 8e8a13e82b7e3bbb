package zookeeper

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// cycle is one acquisition and its release by goroutine g.
type cycle func(g int) error

// bench is what the benchmarks share.
type bench struct {
	server  *servers.ZooKeeper
	raw     *zk.Conn
	backend *Backend
}

func newBench(b *testing.B) *bench {
	s := servers.NeedZooKeeper(b, servers.ZooKeeperOptions{})
	x := &bench{s, newRaw(b, s.Addr()), newBackend(b, Options{TTL: 15 * time.Second}, s.Addr())}
	for _, path := range []string{"/bare", "/lock"} {
		_, err := x.raw.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(b, err)
	}
	for g := range 64 {
		for _, path := range []string{"/bare/", "/lock/"} {
			_, err := x.raw.Create(path+strconv.Itoa(g), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(b, err)
		}
	}
	return x
}

// bare is the floor: the creation and the deletion of an ephemeral sequential node, one flight each.
func (x *bench) bare(g int) error {
	path, err := x.raw.Create("/bare/"+strconv.Itoa(g)+"/lock-", []byte("bench"), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		return err
	}
	return x.raw.Delete(path, -1)
}

// theirs is go-zookeeper's own lock.
func (x *bench) theirs(g int) error {
	l := zk.NewLock(x.raw, "/lock/"+strconv.Itoa(g), zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil {
		return err
	}
	return l.Unlock()
}

// ours is the driver.
func (x *bench) ours(g int) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	lease, err := x.backend.TryAcquire(ctx, request(x.backend, strconv.Itoa(g)))
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// run makes n cycles on goroutines, each on a name of its own, and returns how long that took.
func run(b *testing.B, c cycle, goroutines, n int) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range (n + goroutines - 1 - g) / goroutines {
				if err := c(g); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// BenchmarkCycle is an uncontended acquisition and release by the driver, alternating in one run with the floor and go-zookeeper's own
// lock. The ratios are the medians over many short turns.
func BenchmarkCycle(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) { newBench(b).compare(b, goroutines, nil) })
	}
}

// BenchmarkLocker is the same for what a user sees.
func BenchmarkLocker(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			x := newBench(b)
			c, err := lockport.New(x.backend, lockport.Logger(nil), lockport.TTL(x.backend.o.TTL))
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, c.Close()) })
			x.compare(b, goroutines, func(g int) error {
				l, err := c.Acquire(context.Background(), strconv.Itoa(g))
				if err != nil {
					return err
				}
				return l.Release(context.Background())
			})
		})
	}
}

func (x *bench) compare(b *testing.B, goroutines int, ours cycle) {
	if ours == nil {
		ours = x.ours
	}
	turn := 25 * goroutines
	for _, c := range []cycle{x.bare, x.theirs, ours} {
		run(b, c, goroutines, turn)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	var floors, ratios, peers []float64
	for left := b.N; left > 0; left -= turn {
		n := min(left, turn)
		floor, peer := run(b, x.bare, goroutines, n), run(b, x.theirs, goroutines, n)
		b.StartTimer()
		own := run(b, ours, goroutines, n)
		b.StopTimer()
		floors = append(floors, float64(floor.Nanoseconds())/float64(n))
		ratios = append(ratios, float64(own)/float64(floor))
		peers = append(peers, float64(own)/float64(peer))
	}
	b.ReportMetric(median(floors), "floor-ns/op")
	b.ReportMetric(median(ratios), "of-floor")
	b.ReportMetric(median(peers), "of-zk.Lock")
}

// settled is a pause before each release, the same for all: who has just been busy is faster.
const settled = 20 * time.Millisecond

// BenchmarkHandOff is the time from the release by one client to the grant of another that waits, alternating with the floor, which is
// the deletion of a node, its event and the list of what is left, and with go-zookeeper's own lock.
func BenchmarkHandOff(b *testing.B) {
	x := newBench(b)
	other, raw := newBackend(b, Options{TTL: 15 * time.Second}, x.server.Addr()), newRaw(b, x.server.Addr())
	bare := func() time.Duration {
		path, err := x.raw.Create("/bare/0/lock-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		require.NoError(b, err)
		_, _, gone, err := raw.ExistsW(path)
		require.NoError(b, err)
		got := make(chan time.Time)
		go func() {
			<-gone
			_, _, _ = raw.Children("/bare/0")
			got <- time.Now()
		}()
		<-time.After(settled)
		start := time.Now()
		require.NoError(b, x.raw.Delete(path, -1))
		return (<-got).Sub(start)
	}
	theirs := func() time.Duration {
		first, next := zk.NewLock(x.raw, "/lock/0", zk.WorldACL(zk.PermAll)), zk.NewLock(raw, "/lock/0", zk.WorldACL(zk.PermAll))
		require.NoError(b, first.Lock())
		got := make(chan time.Time)
		go func() {
			_ = next.Lock()
			got <- time.Now()
		}()
		waitFor(b, raw, "/lock/0", 2)
		<-time.After(settled)
		start := time.Now()
		require.NoError(b, first.Unlock())
		took := (<-got).Sub(start)
		require.NoError(b, next.Unlock())
		return took
	}
	ours := func() time.Duration {
		lease := takes(b, x.backend, request(x.backend, "ours"))
		got := make(chan time.Time)
		var next driver.Lease
		go func() {
			next, _ = other.Wait(context.Background(), request(other, "ours"))
			got <- time.Now()
		}()
		waitFor(b, raw, "/ours", 2)
		require.Eventually(b, func() bool { return other.watching() == 2 }, soon, time.Millisecond)
		<-time.After(settled)
		start := time.Now()
		frees(b, lease)
		took := (<-got).Sub(start)
		frees(b, next)
		return took
	}
	var floors, own, peers []float64
	for b.Loop() {
		floors = append(floors, float64(bare().Microseconds()))
		own = append(own, float64(ours().Microseconds()))
		peers = append(peers, float64(theirs().Microseconds()))
	}
	b.ReportMetric(median(floors), "floor-µs")
	b.ReportMetric(median(own), "ours-µs")
	b.ReportMetric(median(peers), "zk.Lock-µs")
	b.ReportMetric(median(own)/median(floors), "of-floor")
	b.ReportMetric(median(own)/median(peers), "of-zk.Lock")
}

// watching is the number of nodes that are watched.
func (b *Backend) watching() int {
	l, err := b.current()
	if err != nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, w := range l.watches {
		if w.armed && len(w.calls) > 0 {
			n++
		}
	}
	return n
}

// waitFor waits until a node has so many children.
func waitFor(t testing.TB, raw *zk.Conn, path string, n int) {
	require.Eventually(t, func() bool {
		children, _, err := raw.Children(path)
		return err == nil && len(children) == n
	}, soon, time.Millisecond)
}

// BenchmarkWaiters is what goroutines of one process cost that wait for one name.
func BenchmarkWaiters(b *testing.B) {
	s := servers.NeedZooKeeper(b, servers.ZooKeeperOptions{})
	proxy, err := faultproxy.New(s.Addr())
	require.NoError(b, err)
	b.Cleanup(func() { _ = proxy.Close() })
	holder := newBackend(b, Options{TTL: 15 * time.Second}, s.Addr())
	takes(b, holder, request(holder, "x"))
	c, _ := newClient(b, Options{TTL: 15 * time.Second}, proxy.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := 0
	cost := func(waiters int) float64 {
		for ; began < waiters; began++ {
			go func() { _, _ = c.Acquire(ctx, "x") }()
		}
		waits(b, holder, "x", 2)
		before := proxy.Requests()
		time.Sleep(10 * time.Second)
		return float64(proxy.Requests()-before) / 10
	}
	for b.Loop() {
		b.ReportMetric(cost(1), "requests/s-of-1")
		b.ReportMetric(cost(1000), "requests/s-of-1000")
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
