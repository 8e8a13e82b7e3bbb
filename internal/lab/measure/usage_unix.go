//go:build unix

package measure

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time of this process: getrusage(2).
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
