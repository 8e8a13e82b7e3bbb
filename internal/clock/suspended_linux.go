package clock

import (
	"slices"
	"sync"
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

var (
	started = time.Now()
	known   atomic.Int64 // the greatest reading of Suspended so far
	lead    atomic.Int64 // by how much the wall clock was ahead of the monotonic one when known was last read
	reading sync.Mutex
	jumps   atomic.Pointer[[]jump] // the latest rises of known, the oldest first; nil: none
)

// jump is a rise of Suspended: it was noticed at, and known was before until then.
type jump struct {
	at     time.Time
	before time.Duration
}

// maxJumps is how many of them are kept.
const maxJumps = 16

// grain is what Suspended is rounded down to.
const grain = time.Millisecond

func init() {
	for range 10 { // one of them is not interrupted
		read()
	}
	jumps.Store(nil) // they were none
}

// Suspended is for how long the machine has been suspended since it was booted, in whole milliseconds. It never falls. Only
// differences of it mean something: by so much more than Now says, the lock servers' clocks have moved on. Read before Now, it
// misses no suspend of more than a millisecond that ended before the call.
//
// A suspend moves the wall clock ahead of the monotonic one, so where the two have kept step there was none, which spares the
// system calls.
func Suspended() time.Duration {
	if d := wallLead() - lead.Load(); -int64(grain) < d && d < int64(grain) {
		return time.Duration(known.Load())
	}
	return read()
}

// wallLead is by how much the wall clock is ahead of the monotonic one.
func wallLead() int64 {
	now := time.Now()
	return now.UnixNano() - int64(now.Sub(started))
}

// SuspendedAt is what Suspended was at t, or less: for what was counted from an instant before the call.
func SuspendedAt(t time.Time) time.Duration {
	if all := jumps.Load(); all != nil {
		for _, j := range *all {
			if t.Before(j.at) {
				return j.before
			}
		}
	}
	return Suspended()
}

// read asks the kernel.
func read() time.Duration {
	reading.Lock()
	defer reading.Unlock()
	ahead := wallLead() // before the others: a suspend from here on is seen by the next call
	before := kernelClock(clockMonotonic)
	boottime := kernelClock(clockBoottime)
	after := kernelClock(clockMonotonic)
	// The later reading is subtracted, so that an interruption makes the difference smaller, never larger.
	d := (boottime - after).Truncate(grain)
	if old := time.Duration(known.Load()); d > old {
		var all []jump
		if p := jumps.Load(); p != nil {
			all = (*p)[max(0, len(*p)-maxJumps+1):]
		}
		all = append(slices.Clone(all), jump{time.Now(), old})
		jumps.Store(&all)
		known.Store(int64(d))
	}
	if after-before < grain { // otherwise it was interrupted, and the next call asks again
		lead.Store(ahead)
	}
	return time.Duration(known.Load())
}

// kernelClock reads a clock of the kernel. It cannot fail: both are older than the oldest kernel that Go runs on.
func kernelClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
