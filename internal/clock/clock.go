// Package clock is the one seam for time: what the validity of a lock is measured with. It is Go's monotonic clock, so that
// testing/synctest works, together with the time for which the machine was suspended, which that clock leaves out.
package clock

import "time"

// Now is the present, with a monotonic reading.
func Now() time.Time { return time.Now() }
