package measure

import (
	"runtime"
	"time"
)

// usage is a worker process's resource usage so far.
type usage struct {
	CPU        time.Duration
	Goroutines int
	Memory     int64 // heap and stacks in use
}

// usageNow returns the usage of this process, after a garbage collection if settled is set.
func usageNow(settled bool) usage {
	if settled {
		runtime.GC()
		runtime.GC() // the second collects objects kept by finalizers and pools
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{cpuTime(), runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)}
}
