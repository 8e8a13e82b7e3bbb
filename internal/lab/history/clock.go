package history

import "time"

// epoch is when the clock that all processes share was 0. Only differences to it mean something.
var epoch = func() (epoch time.Time) {
	// The two clocks cannot be read at one instant, and a process that must wait between the two would have all its events at another
	// time than the others have theirs: the closest of many readings counts.
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

// Now is the present.
func Now() Instant { return InstantOf(time.Now()) }

// InstantOf is t, a time with a monotonic reading of this process; 0 for the zero time.
func InstantOf(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.Sub(epoch))
}
