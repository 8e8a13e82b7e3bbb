package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/driver"
)

// A machine that stalls makes a sound backend late. Cases that measure time measure the stalls too, and do not blame the
// backend for them.

// stalls calls look repeatedly until longest is called, once. longest returns the longest time that look and the scheduler took.
func stalls(look func()) (longest func() time.Duration) {
	const pause = 10 * time.Millisecond
	stop, over, most := make(chan struct{}), make(chan struct{}), time.Duration(0)
	go func() {
		defer close(over)
		for {
			start := time.Now()
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			look()
			most = max(most, time.Since(start)-pause)
		}
	}()
	return func() time.Duration { close(stop); <-over; return most }
}

// maxStalled is how often a case may start again because of a stall.
const maxStalled = 2

// attempt runs a case. If a lock was lost while the machine stalled, its TTL may have passed, which shows nothing about the backend: the case starts
// again. n is how often it did.
func (r *runner) attempt(ctx context.Context, cfg Config, c Case) (n int, err error) {
	for ; ; n++ {
		longest := r.stalls()
		err = r.once(ctx, cfg, c)
		if longest() < r.ttl/8 || !errors.Is(err, driver.ErrLost) || n == maxStalled {
			return n, err
		}
	}
}

// unlessStalled calls try until it reports that the machine has not stalled. If it always stalls, the case is not run.
func (e *Env) unlessStalled(try func() (ran bool)) {
	for range 5 {
		if try() {
			return
		}
	}
	e.notRun("the machine stalls for too long")
}
