package measure

import "time"

// Instant is a moment on the clock that all processes of the machine share, in nanoseconds since some moment before they were started. 0 is none.
type Instant int64

// Add is t + d.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub is t - u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// epoch is when that clock was 0. The two clocks cannot be read at one instant: the closest of many readings counts.
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

func now() Instant { return Instant(time.Since(epoch)) }
