package redis

import (
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
)

// BenchmarkHeld holds 10,000 locks for a few periods of renewal and reports, for one period (a third of the TTL), the scripts that the server
// ran, and what a held lock costs this process. Its ns/op mean nothing.
func BenchmarkHeld(b *testing.B) {
	const n, ttl, periods = 10_000, 9 * time.Second, 3
	x := newBench(b)
	c, err := lockport.New(x.backend, lockport.Logger(nil), lockport.TTL(ttl))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	scripts := func() int {
		stats := x.client.Info(b.Context(), "commandstats").Val()
		found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(stats)
		require.NotNil(b, found)
		calls, err := strconv.Atoi(found[1])
		require.NoError(b, err)
		return calls
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	one, err := c.Acquire(b.Context(), "one")
	require.NoError(b, err)
	goroutines, before := runtime.NumGoroutine(), heap()
	locks := make([]*lockport.Lock, n)
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for i := g; i < n; i += 64 {
				l, err := c.Acquire(b.Context(), strconv.Itoa(i))
				locks[i] = l
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	<-time.After(ttl / 3) // the first renewals fall where the locks were acquired
	each := (heap() - before) / n
	calls := scripts()
	<-time.After(periods * ttl / 3)
	b.ReportMetric(float64(scripts()-calls)/periods, "scripts/period")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "more-goroutines")
	b.ReportMetric(each, "B/lock")
	for _, l := range append(locks, one) {
		require.NoError(b, l.Err())
	}
}
