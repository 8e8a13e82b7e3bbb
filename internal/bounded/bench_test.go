package bounded

import (
	"context"
	"testing"
	"time"
)

// One request's context: ours, unasked and asked, beside the package context's, under a parent that can end and one that cannot.
func BenchmarkRequest(b *testing.B) {
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, parent := range map[string]context.Context{"background": context.Background(), "cancellable": cancellable} {
		for _, asked := range []bool{false, true} {
			name := name + map[bool]string{false: "/unasked", true: "/asked"}[asked]
			b.Run("context/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c, cancel := context.WithTimeout(parent, time.Second)
					if asked {
						c.Done()
					}
					cancel()
				}
			})
			b.Run("bounded/"+name, func(b *testing.B) {
				b.ReportAllocs()
				var timers Timers
				for b.Loop() {
					c := timers.Under(parent, in(time.Second))
					if asked {
						c.Done()
					}
					c.Cancel()
				}
			})
		}
	}
}
