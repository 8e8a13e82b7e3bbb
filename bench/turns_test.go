package bench

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// library is one library's way to take a name and give it back.
type library struct {
	name  string
	cycle func(name string) error
}

const turn = 100 // cycles before it is another library's turn

// takeTurns runs every library as a sub-benchmark, on goroutines with a name each. Each sub-benchmark alternates with the first library, so that
// "of-first" is a ratio of neighbours in time: the median over the turns.
func takeTurns(b *testing.B, goroutines int, libraries []library) {
	for _, l := range libraries {
		b.Run(l.name, func(b *testing.B) {
			first := libraries[0]
			run(b, first, goroutines, 2*goroutines)
			run(b, l, goroutines, 2*goroutines)
			var ratios []float64
			b.ReportAllocs()
			b.ResetTimer()
			b.StopTimer()
			for left := b.N; left > 0; left -= turn {
				n := min(left, turn)
				base := run(b, first, goroutines, n)
				start := time.Now()
				b.StartTimer()
				run(b, l, goroutines, n)
				b.StopTimer()
				ratios = append(ratios, float64(time.Since(start))/float64(base))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "of-first")
		})
	}
}

// run makes n cycles and returns how long that took.
func run(b *testing.B, l library, goroutines, n int) time.Duration {
	start := time.Now()
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			name := l.name + "-" + string(rune('A'+g))
			for range (n + goroutines - 1 - g) / goroutines {
				if err := l.cycle(name); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}
