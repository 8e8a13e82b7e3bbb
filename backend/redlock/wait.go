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

// awaitVotes is await for the phase claiming. Where a majority has answered, and others have votes, the silent nodes are not waited for much
// longer than it took those: a claim that holds its votes until a hung node's time is over outlasts the patience of the one that they are to
// go to, and nobody wins.
func (c *claim) awaitVotes(ctx context.Context, limit time.Duration) error {
	asked := time.Now()
	for {
		err := c.await(ctx, min(limit-time.Since(asked), laterRounds))
		c.mu.Lock()
		over, heard := c.ready, c.heard
		split := c.count(seatHeld) > 0 && c.count(seatGranted)+c.count(seatHeld) >= c.b.quorum
		c.mu.Unlock()
		enough := split && time.Since(heard) > max(laterRounds, heard.Sub(asked))
		if err != nil || over || enough || time.Since(asked) >= limit {
			return err
		}
	}
}

// certain says that what failed with err had no effect.
func certain(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrRefused)
}
