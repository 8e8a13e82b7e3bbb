package conformance

import (
	"context"
	"time"
)

// A machine that stalls makes a sound backend late. Cases that measure time measure the stalls too, and do not blame the
// backend for them.

// stalls calls look repeatedly until longest is called. longest returns the longest time that look and the scheduler took.
func (e *Env) stalls(look func()) (longest func() time.Duration) {
	const pause = 5 * time.Millisecond
	c := begin(e, "a watch of the machine", func(ctx context.Context) (longest time.Duration, _ error) {
		for ctx.Err() == nil {
			start := time.Now()
			<-time.After(pause)
			look()
			longest = max(longest, time.Since(start)-pause)
		}
		return longest, nil
	})
	return func() time.Duration { c.cancel(); <-c.over; return c.result }
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
