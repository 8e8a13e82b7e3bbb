package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

var timers = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}

// begin begins a phase. The mutex is held. Then await waits for its end.
func (c *claim) begin(p phase) {
	c.phase, c.ready = p, false
	select {
	case <-c.changed:
	default:
	}
}

// await waits until the phase is over, the nodes had their time, or ctx ends, whose error it returns.
func (c *claim) await(ctx context.Context, limit time.Duration) error {
	select {
	case <-c.changed:
		return nil
	default:
	}
	timer := timers.Get().(*time.Timer)
	timer.Reset(limit)
	defer func() {
		timer.Stop()
		timers.Put(timer)
	}()
	select {
	case <-c.changed:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// certain says that what failed with err had no effect.
func certain(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrRefused)
}
