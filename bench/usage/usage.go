// Package usage is what this process has used of the machine.
package usage

import (
	"runtime"
	"time"
)

// Usage is that of this process until now.
type Usage struct {
	CPU        time.Duration
	Goroutines int
	Memory     int64 // heap and stacks that are in use
	Allocs     uint64
	Allocated  uint64 // bytes
}

// Now is the present.
func Now() Usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Usage{
		CPU: processor(), Goroutines: runtime.NumGoroutine(), Memory: int64(m.HeapAlloc + m.StackInuse),
		Allocs: m.Mallocs, Allocated: m.TotalAlloc,
	}
}

// Settled is the present without garbage.
func Settled() Usage {
	runtime.GC()
	runtime.GC() // what finalizers and pools have kept goes with the second
	return Now()
}
