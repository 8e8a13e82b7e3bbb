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
		for stopped := false; !stopped; {
			start := time.Now()
			select {
			case <-stop:
				stopped = true // the stall that ended the case counts too
			case <-time.After(pause):
				look()
			}
			most = max(most, time.Since(start)-pause)
		}
	}()
	return func() time.Duration { close(stop); <-over; return most }
}

// maxStalled is how often a case may start again because of a stall.
const maxStalled = 2

// errStalled ends a run that shows nothing, because machine or server were too slow.
var errStalled = errNotRun{"the machine stalls for too long"}

// stalled ends the case's run with errStalled.
func (e *Env) stalled() { e.notRun("%s", errStalled.reason) }

// errExpired is a failure that was seen when a claim of the case may have expired.
type errExpired struct{ error }

func (e errExpired) Unwrap() error { return e.error }

// errSlow is part of a failure that a slow machine or server may explain.
var errSlow = errors.New("the machine or the server was slow")

// errNotOver is part of a failure that a stall of the machine may explain.
var errNotOver = errors.New("has not returned")

// errAway is part of the failure to acquire a free name, whose server did not answer in time.
var errAway = errors.New("the server was away")

// errLimit is part of a failure that was seen after the case's time limit, when its calls fail.
var errLimit = errors.New("the case had reached its limit")

// attempt runs a case, and again if the failure may come from a stall or, in a quick case, which renews few claims, from their expiry. n is how often
// it started again.
func (r *runner) attempt(ctx context.Context, cfg Config, c Case) (n int, err error) {
	for ; ; n++ {
		longest := r.stalls()
		err = r.once(ctx, cfg, c)
		_, late := errors.AsType[errExpired](err)
		expired := late && c.Quick && r.caps.Ends != driver.EndsProcess // a session that is silent for the TTL ends too
		stall := longest()
		overdue := !c.Quick && stall >= r.ttl*5/8 // claims are renewed after a quarter of the TTL
		excused := matches(err, errStalled, errSlow) ||
			matches(err, driver.ErrLost, errAway, errLimit) && (stall >= r.ttl/8 || expired) ||
			matches(err, errNotOver) && stall >= endTime/4 ||
			matches(err, errGranted, errNone, errMissing) && (expired || overdue)
		if n == maxStalled || !excused {
			return n, err
		}
	}
}
