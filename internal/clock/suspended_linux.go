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
	if inStep(time.Now()) {
		return time.Duration(known.Load())
	}
	return read()
}

// Present is Now, and Suspended as it was just before, mostly by one reading of the clocks.
func Present() (now time.Time, suspended time.Duration) {
	if now = time.Now(); inStep(now) {
		return now, time.Duration(known.Load())
	}
	suspended = read()
	return time.Now(), suspended
}

// inStep reports that the clocks have kept step until now.
func inStep(now time.Time) bool {
	d := leadAt(now) - lead.Load()
	return -int64(grain) < d && d < int64(grain)
}

// leadAt is by how much the wall clock is ahead of the monotonic one.
func leadAt(now time.Time) int64 { return now.UnixNano() - int64(now.Sub(started)) }

// SuspendedAt is what Suspended was at t, or less: for what was counted from an instant before the call. It asks no clock: what nobody
// has noticed yet is not in what Suspended returned before either.
func SuspendedAt(t time.Time) time.Duration {
	if all := jumps.Load(); all != nil {
		for _, j := range *all {
			if t.Before(j.at) {
				return j.before
			}
		}
	}
	return time.Duration(known.Load())
}

// read asks the kernel.
func read() time.Duration {
	reading.Lock()
	defer reading.Unlock()
	ahead := leadAt(time.Now()) // before the others: a suspend from here on is seen by the next call
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

// Shared is a reading of a clock that all processes of the machine share, for telling another one of an instant. It goes on while the machine is
// suspended, and nobody sets it.
func Shared() time.Duration { return kernelClock(clockBoottime) }

// kernelClock reads a clock of the kernel. It cannot fail: both are older than the oldest kernel that Go runs on.
func kernelClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
