package measure

import (
	"runtime"
	"time"
)

// usage is what a worker process has used of the machine until an instant.
type usage struct {
	CPU        time.Duration
	Goroutines int
	Memory     int64 // heap and stacks that are in use
	Allocs     uint64
	Allocated  uint64 // bytes
}

// usageNow reads the usage of this process. settled says that garbage is collected first.
func usageNow(settled bool) usage {
	if settled {
		runtime.GC()
		runtime.GC() // the second collects what finalizers and pools kept
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{processor(), runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse), m.Mallocs, m.TotalAlloc}
}
