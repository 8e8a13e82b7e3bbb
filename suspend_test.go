package lockport

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// A validity also runs out while the machine is suspended, though Go's monotonic clock stands still then. No test can suspend the machine, so one
// hour of suspension is simulated, before the request or after it.
func TestDeadlineCountsSuspends(t *testing.T) {
	const ttl, asleep = 10 * time.Second, time.Hour
	for when, suspended := range map[time.Duration]time.Duration{ttl: clock.Suspended(), ttl - asleep: clock.Suspended() - asleep} {
		c := &Client{base: clock.Now(), suspended: clock.Suspended() - asleep}
		left := c.deadline(clock.Now().Add(ttl), suspended, ttl) - c.now()
		require.InDelta(t, when-margin(ttl), left, float64(ttl/10))
	}
}

// The server rounds a TTL up, and counts the validity from its rounded TTL before its end.
func TestValidityOfARoundedTTL(t *testing.T) {
	c, sent := &Client{caps: driver.Capabilities{TTLGrain: time.Second}}, clock.Now()
	for _, ttl := range []time.Duration{1100 * time.Millisecond, 2 * time.Second} {
		require.Equal(t, sent, c.countedFrom(sent.Add(2*time.Second), ttl))
	}
}

// quiet is a lease whose server answers nothing more.
type quiet struct{ until time.Time }

func (q quiet) Grant() driver.Grant         { return driver.Grant{Token: 1, Until: q.until} }
func (quiet) Release(context.Context) error { return nil }
func (quiet) Renew(ctx context.Context) (time.Time, error) {
	<-ctx.Done()
	return time.Time{}, driver.ErrUnknown
}

type quietServer struct{}

func (quietServer) TryAcquire(_ context.Context, r driver.Request) (driver.Lease, error) {
	return quiet{clock.Now().Add(r.TTL)}, nil
}
func (quietServer) Abandon(context.Context, driver.Request) error { return nil }
func (quietServer) Capabilities() driver.Capabilities {
	return driver.Capabilities{Backend: "quiet", Ends: driver.EndsTTL, Token: driver.TokenData}
}
func (quietServer) Close() error { return nil }

// Timers stand still during a suspend. A hold's context ends soon after it all the same.
func TestContextEndsSoonAfterASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(quietServer{}, Logger(nil))
		require.NoError(t, err)
		defer c.Close()
		l, err := c.Acquire(t.Context(), "a")
		require.NoError(t, err)
		held, cancel := l.Context(t.Context())
		defer cancel()
		c.mu.Lock()
		c.suspended -= time.Minute // the machine was suspended for a minute
		c.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(held), ErrSilence)
	})
}
