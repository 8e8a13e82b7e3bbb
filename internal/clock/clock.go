// Package clock is the one seam for time: it measures the validity of a lock. It uses Go's monotonic clock, so that testing/synctest works. To that
// it adds the time for which the machine was suspended, which the monotonic clock omits.
package clock

import "time"

// Now is the current time, with a monotonic reading.
func Now() time.Time { return time.Now() }

// Suspended is how long the machine has been suspended since boot, in whole milliseconds; 0 on systems other than Linux. It never falls. Only its
// differences are meaningful: the lock servers' clocks have moved on by that much more than Now shows. A reading before Now misses no suspend of more
// than a millisecond that ended before the call.
func Suspended() time.Duration {
	_, suspended := Present()
	return suspended
}
