package lockport

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// A validity also runs out while the machine is suspended, though Go's monotonic clock stands still then. No test can suspend the machine, so one
// hour of suspension is simulated, before the request or after it.
func TestDeadlineCountsSuspends(t *testing.T) {
	const ttl, asleep = 10 * time.Second, time.Hour
	now, known := clock.Present()
	for when, suspended := range map[time.Duration]time.Duration{ttl: known, ttl - asleep: known - asleep} {
		c := &Client{base: now, suspended: known - asleep}
		left := c.deadline(now.Add(ttl), suspended, ttl) - c.now()
		require.InDelta(t, when-margin(ttl), left, float64(ttl/10))
	}
}

// The server rounds a TTL up, and counts the validity from its rounded TTL before its end.
func TestValidityOfARoundedTTL(t *testing.T) {
	c, sent := &Client{caps: driver.Capabilities{TTLGrain: time.Second}}, time.Now()
	for _, ttl := range []time.Duration{1100 * time.Millisecond, 2 * time.Second} {
		require.Equal(t, sent, c.countedFrom(sent.Add(2*time.Second), ttl))
	}
}

// Suspend simulates a suspend of the machine for d.
func (c *Client) Suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended -= d
}
