package history

import (
	"syscall"
	"time"
	"unsafe"
)

// sinceBoot reads the clock behind Go's monotonic one, which starts anew in each process: CLOCK_MONOTONIC of clock_gettime(2).
func sinceBoot() time.Duration {
	var ts syscall.Timespec
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0) // it cannot fail: every kernel that Go supports has it
	return time.Duration(ts.Nano())
}
