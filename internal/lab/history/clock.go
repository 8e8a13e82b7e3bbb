package history

import "time"

// Instant is a time on the clock that all processes of the machine share, in nanoseconds since some time before they started. 0 means none.
type Instant int64

// Add is t + d.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub is t - u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// epoch is when the shared clock was 0. Two clocks cannot be read at the same instant, so the closest of many readings counts.
var epoch = func() (epoch time.Time) {
	closest := time.Hour
	for range 100 {
		before := sinceBoot()
		now := time.Now()
		if apart := sinceBoot() - before; apart < closest {
			closest, epoch = apart, now.Add(-before)
		}
	}
	return epoch
}()

// Now is the current time.
func Now() Instant { return InstantOf(time.Now()) }

// InstantOf is t, a time with a monotonic reading of this process; 0 for the zero time.
func InstantOf(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.Sub(epoch))
}
