package history

import (
	"syscall"
	"time"
	"unsafe"
)

// sinceBoot is the clock behind Go's monotonic one, which has another beginning in every process: CLOCK_MONOTONIC of
// clock_gettime(2).
func sinceBoot() time.Duration {
	var ts syscall.Timespec
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0) // it is older than the oldest kernel that Go runs on
	return time.Duration(ts.Nano())
}
