package clock

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The kernel's clock ids: CLOCK_MONOTONIC stands still while the machine is suspended, like Go's monotonic clock. CLOCK_BOOTTIME goes on.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

var (
	started = time.Now()
	latest  atomic.Pointer[rise]
	lead    atomic.Int64 // how far the wall clock was ahead of the monotonic one when the kernel's clocks were last read
	reading sync.Mutex
)

// rise is a rise of suspended from before to now, noticed at the instant at. The rise before it was noticed at earlier.
type rise struct {
	at, earlier time.Time
	before, now time.Duration
}

// grain is the unit to which suspended is rounded down.
const grain = time.Millisecond

func init() {
	latest.Store(new(rise))
	for range 10 { // at least one is not interrupted
		read()
	}
	latest.Store(&rise{now: latest.Load().now}) // none was a suspend
}

// Present is the current time, and how long the machine had been suspended since boot just before, in whole milliseconds. suspended never falls. Only
// its differences are meaningful: the lock servers' clocks have moved on by that much more than now shows. No suspend of more than a millisecond that
// ended before the call is missed.
//
// A suspend moves the wall clock ahead of the monotonic one. If the two have kept step, there was none, and no system call is needed.
func Present() (now time.Time, suspended time.Duration) {
	if now = time.Now(); inStep(now) {
		return now, latest.Load().now
	}
	suspended = read()
	return time.Now(), suspended
}

// inStep reports whether the clocks have kept step until now.
func inStep(now time.Time) bool {
	d := leadAt(now) - lead.Load()
	return -int64(grain) < d && d < int64(grain)
}

// leadAt is how far the wall clock is ahead of the monotonic one.
func leadAt(now time.Time) int64 { return now.UnixNano() - int64(now.Sub(started)) }

// SuspendedAt is what suspended was at t, or 0 if the machine was suspended twice since. Use it for validity that counts from before the call. It reads no
// clock: a suspend that was not noticed yet is missing from earlier results of Present too.
func SuspendedAt(t time.Time) time.Duration {
	switch r := latest.Load(); {
	case !t.Before(r.at):
		return r.now
	case t.Before(r.earlier):
		return 0
	default:
		return r.before
	}
}

// read reads the kernel's clocks.
func read() time.Duration {
	reading.Lock()
	defer reading.Unlock()
	ahead := leadAt(time.Now()) // read first: the next call sees a suspend from here on
	before := kernelClock(clockMonotonic)
	boottime := kernelClock(clockBoottime)
	after := kernelClock(clockMonotonic)
	// The later reading is subtracted, so that an interruption makes the difference smaller, never larger.
	d := (boottime - after).Truncate(grain)
	if last := latest.Load(); d > last.now {
		latest.Store(&rise{at: time.Now(), earlier: last.at, before: last.now, now: d})
	}
	if after-before < grain { // otherwise it was interrupted, and the next call reads again
		lead.Store(ahead)
	}
	return latest.Load().now
}

// Shared reads a clock that all processes of the machine share, to tell another process an instant. The clock runs during a suspend, and nobody sets
// it.
func Shared() time.Duration { return kernelClock(clockBoottime) }

// kernelClock reads a clock of the kernel. It cannot fail: both are older than the oldest kernel that Go runs on.
func kernelClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
