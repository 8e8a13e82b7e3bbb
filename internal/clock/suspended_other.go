//go:build !linux

package clock

import "time"

// Suspended is 0: on this system Go's monotonic clock is all there is. A suspend of the machine is not seen here: the fencing
// token protects then.
func Suspended() time.Duration { return 0 }

// Present is Now, and Suspended as it was just before.
func Present() (now time.Time, suspended time.Duration) { return Now(), 0 }

// SuspendedAt is 0 too.
func SuspendedAt(time.Time) time.Duration { return 0 }

// Shared is a reading of a clock that all processes of the machine share, for telling another one of an instant: the wall clock, which may be set
// in between.
func Shared() time.Duration { return time.Duration(time.Now().UnixNano()) }
