// Package clock is the one seam for time: it measures the validity of a lock. It uses Go's monotonic clock, so that testing/synctest works. To that
// it adds the time for which the machine was suspended, which the monotonic clock omits.
package clock

import "time"

// Now is the current time, with a monotonic reading.
func Now() time.Time { return time.Now() }
