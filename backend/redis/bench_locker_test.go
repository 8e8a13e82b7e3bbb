package redis

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
)

// BenchmarkLocker is what a user sees: an uncontended Acquire and Release, alternating with the floor in one run. The ratio is the
// median over many short turns, since neighbours disturb some of them.
func BenchmarkLocker(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			x := newBench(b)
			c, err := lockport.New(x.backend, lockport.Logger(nil))
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, c.Close()) })
			bare := x.bare()
			ours := func(ctx context.Context, g int) error {
				l, err := c.Acquire(ctx, strconv.Itoa(g))
				if err != nil {
					return err
				}
				return l.Release(ctx)
			}
			run(b, bare, goroutines, 4*goroutines)
			run(b, ours, goroutines, 4*goroutines)
			b.ReportAllocs()
			b.ResetTimer()
			b.StopTimer()
			var ratios, floors []float64
			for left := b.N; left > 0; left -= 200 {
				n := min(left, 200)
				floor := run(b, bare, goroutines, n)
				start := time.Now()
				b.StartTimer()
				run(b, ours, goroutines, n)
				b.StopTimer()
				ratios = append(ratios, float64(time.Since(start))/float64(floor))
				floors = append(floors, float64(floor.Nanoseconds())/float64(n))
			}
			b.ReportMetric(median(floors), "floor-ns/op")
			b.ReportMetric(median(ratios), "ratio")
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
