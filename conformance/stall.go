package conformance

import (
	"context"
	"time"
)

// A machine that stalls makes a sound backend late. A case that measures time watches the machine meanwhile, and does not blame the backend for what the
// machine has done.

// stalls measures, until the returned function is called, how long look and a goroutine's turn to run take. It returns the longest.
func (e *Env) stalls(look func()) (longest func() time.Duration) {
	const pause = 5 * time.Millisecond
	c := begin(e, "a look at the machine", func(ctx context.Context) (longest time.Duration, _ error) {
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

// unlessStalled calls try until that says that the machine has not stalled. A case whose machine always does is not run.
func (e *Env) unlessStalled(try func() (ran bool)) {
	for range 5 {
		if try() {
			return
		}
	}
	e.notRun("the machine stalls for too long")
}
