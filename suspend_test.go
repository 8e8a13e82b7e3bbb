package lockport

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/clock"
)

// The time for which the machine was suspended passes for a validity too, though Go's monotonic clock stands still. One hour of it stands here for what no test
// can have: before the request, or after it.
func TestDeadlineCountsSuspends(t *testing.T) {
	const ttl, asleep = 10 * time.Second, time.Hour
	for when, suspended := range map[time.Duration]time.Duration{ttl: clock.Suspended(), ttl - asleep: clock.Suspended() - asleep} {
		c := &Client{base: clock.Now(), suspended: clock.Suspended() - asleep}
		left := c.deadline(clock.Now().Add(ttl), suspended, ttl) - c.now()
		require.InDelta(t, when-margin(ttl), left, float64(ttl/10))
	}
}
