package clock

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The kernel's ids of the clock that stands still while the machine is suspended, as Go's monotonic clock does, and of the
// one that does not.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// known is the greatest reading of Suspended so far.
var known atomic.Int64

func init() {
	for range 10 { // one of them is not interrupted
		Suspended()
	}
}

// Suspended is for how long the machine has been suspended since it was booted, in whole milliseconds. It never falls. Only
// differences of it mean something: by so much more than Now says, the lock servers' clocks have moved on. Read before Now, it
// misses no suspend that ended before the call: an interruption between its readings makes Now later by as much as this is too small.
func Suspended() time.Duration {
	boottime := read(clockBoottime) // first: an interruption then makes the difference smaller, never larger
	d := (boottime - read(clockMonotonic)).Truncate(time.Millisecond)
	for {
		old := known.Load()
		if int64(d) <= old {
			return time.Duration(old)
		}
		if known.CompareAndSwap(old, int64(d)) {
			return d
		}
	}
}

// read reads a kernel clock. It cannot fail: both are older than the oldest kernel that Go runs on.
func read(id uintptr) time.Duration {
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
