package lockport_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// thin is a backend that keeps nothing, so a measurement shows the client alone. It grants every claim: use it with one client only.
type thin struct{ grants atomic.Uint64 }

var _ driver.Backend = (*thin)(nil)

func (b *thin) TryAcquire(_ context.Context, req driver.Request) (driver.Lease, error) {
	return &thinLease{driver.Grant{Token: b.grants.Add(1), Until: time.Now().Add(req.TTL)}}, nil
}

func (b *thin) Abandon(context.Context, driver.Request) error { return nil }

func (b *thin) Capabilities() driver.Capabilities {
	return driver.Capabilities{Backend: "thin", Ends: driver.EndsTTL, Token: driver.TokenData, Prompt: true}
}

func (b *thin) Close() error { return nil }

type thinLease struct{ grant driver.Grant }

func (l *thinLease) Grant() driver.Grant                      { return l.grant }
func (l *thinLease) Renew(context.Context) (time.Time, error) { return l.grant.Until, nil }
func (l *thinLease) Release(context.Context) error            { return nil }

func thinClient(tb testing.TB) *lockport.Client {
	c, err := lockport.New(new(thin), lockport.TTL(time.Hour), lockport.Logger(nil))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return c
}

// It allocates the queue of the name, its caller, the claim with its hold, its owner id, two callbacks, and for each request a context, which is
// five. The lease is the driver's.
func TestAllocationsOfACycle(t *testing.T) {
	c := thinClient(t)
	cycles := testing.AllocsPerRun(1000, func() {
		l, err := c.Acquire(t.Context(), "a")
		if err != nil || l.Release(t.Context()) != nil {
			t.Fatal("not acquired, or not released")
		}
	})
	require.LessOrEqual(t, cycles, 18.0, "one for the lease")
}

// inUse is the size of the heap and the stacks, without garbage.
func inUse() (heap, stacks int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}

// raceDetector reports that this binary was built with it.
func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// parked is the number of waiting goroutines.
func parked() uint64 {
	sample := []metrics.Sample{{Name: "/sched/goroutines/waiting:goroutines"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// The client's memory for a lock leaves a driver a third of a kilobyte.
func TestMemoryOfAHeldLock(t *testing.T) {
	c := thinClient(t)
	const n = 10_000
	names, locks := make([]string, n), make([]*lockport.Lock, n)
	for i := range names {
		names[i] = fmt.Sprint("a name ", i)
	}
	before, _ := inUse()
	for i, name := range names {
		var err error
		locks[i], err = c.Acquire(t.Context(), name)
		require.NoError(t, err)
	}
	after, _ := inUse()
	require.LessOrEqual(t, (after-before)/n, int64(688), "with 48 for the lease")
	t.Logf("%d bytes", (after-before)/n)
	runtime.KeepAlive(names)
	runtime.KeepAlive(locks)
}

// A waiting goroutine needs only the smallest stack, 2 KiB, unless its own frames are deep.
func TestMemoryOfAWaiter(t *testing.T) {
	if raceDetector() {
		t.Skip("it makes frames wider")
	}
	c := thinClient(t)
	l, err := c.Acquire(t.Context(), "a")
	require.NoError(t, err)
	each := memoryOfAWaiter(t, c)
	for range 4 { // some had more to do on their way: the mutex was taken, or a collection asked for help
		each = min(each, memoryOfAWaiter(t, c))
	}
	require.LessOrEqual(t, each, int64(4096))
	require.NoError(t, l.Release(t.Context()))
}

// memoryOfAWaiter lets ten thousand goroutines wait for "a", which is held.
func memoryOfAWaiter(t *testing.T, c *lockport.Client) int64 {
	const n = 10_000
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	heapBefore, stacksBefore := inUse()
	var waiters sync.WaitGroup
	for range n {
		waiters.Go(func() { _, _ = c.Acquire(ctx, "a") })
	}
	require.Eventually(t, func() bool { return parked() >= n }, 30*time.Second, 10*time.Millisecond)
	heap, stacks := inUse()
	each := (heap - heapBefore + stacks - stacksBefore) / n
	t.Logf("%d bytes, %d of them stack", each, (stacks-stacksBefore)/n)
	cancel()
	waiters.Wait()
	return each
}
