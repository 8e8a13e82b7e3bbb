//go:build !linux

package clock

import "time"

// Present is the current time, and 0: this system offers only Go's monotonic clock. A suspend of the machine goes unnoticed here; then only the
// fencing token protects.
func Present() (now time.Time, suspended time.Duration) { return time.Now(), 0 }

// SuspendedAt is 0 too.
func SuspendedAt(time.Time) time.Duration { return 0 }

// Shared reads a clock that all processes of the machine share, to tell another process an instant. It is the wall clock, which may be set in
// between.
func Shared() time.Duration { return time.Duration(time.Now().UnixNano()) }
