package articles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// spins are locks whose waiters ask all the time.
var spins = []Exhibit{
	{
		Name: "asks-every-millisecond", Hazard: "H11", Article: "001",
		Is:       "who waits asks the server again after a millisecond",
		CaughtBy: []string{"cost/waiters"}, Sees: []string{"one waiter cost"},
		one: func(l *lock) driver.Backend { return spin(l, time.Millisecond) },
	},
	{
		Name: "asks-every-five-milliseconds", Hazard: "H11", Article: "004",
		Is:       "who waits asks the server again after five milliseconds",
		CaughtBy: []string{"cost/waiters"}, Sees: []string{"one waiter cost"},
		one: func(l *lock) driver.Backend { return spin(l, 5*time.Millisecond) },
	},
}

func spin(l *lock, pause time.Duration) driver.Backend {
	l.caps.Wake = driver.WakeQueue
	return spinning{l, pause}
}

// spinning is a lock with a waiting loop of its own.
type spinning struct {
	*lock
	pause time.Duration
}

// Wait implements driver.Waiter.
func (b spinning) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	for {
		lease, err := b.TryAcquire(ctx, req)
		if !errors.Is(err, driver.ErrHeld) {
			return lease, err
		}
		select {
		case <-time.After(b.pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		}
	}
}
