package redisscript

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lockport/lockport/driver"
)

const (
	// directWait is how long a direct claim waits on the socket, and so how late it may return after its context is cancelled.
	directWait = 80 * time.Millisecond
	// directPause is how long all calls use the queue after a direct claim got no answer within directWait.
	directPause = 10 * time.Second
)

// ErrImpatient comes with driver.ErrUnknown: the claim was sent and not answered within directWait. Repeat it with
// the script Again, which waits longer and makes the server refuse the first request.
var ErrImpatient = errors.New("not answered at once")

// direct runs c on the caller's goroutine. That saves two goroutine switches, which take longer than the script on a local Redis. It needs
// ContextTimeoutEnabled: the client then honours context deadlines, but not cancellation. A claim, unlike a release, must return soon after
// cancellation, so it gets a deadline of its own. false: c was not run.
func (p *Pipe) direct(ctx context.Context, c Call) (Reply, bool) {
	claim := c.script == Acquire
	if p.single == nil || !claim && c.script != Release || p.waits(c.script) || ctx.Err() != nil || p.closed.Load() ||
		time.Now().UnixNano() < p.slow.Load() {
		return Reply{}, false
	}
	sooner := ctx
	if end, limited := ctx.Deadline(); claim && (!limited || time.Until(end) > directWait) {
		sooner = deadlineContext{ctx, time.Now().Add(directWait)}
	}
	cmd := newCommand(c.args)
	_ = p.single.Process(sooner, cmd) // cmd has the error too
	value, err := cmd.outcome()
	if isNoScript(err) {
		return Reply{}, false
	}
	var timeout net.Error
	late := errors.As(err, &timeout) && timeout.Timeout()
	switch {
	case late && sooner != ctx && errors.Is(err, driver.ErrUnavailable): // no connection within directWait
		return Reply{}, false
	case late && sooner != ctx:
		p.slow.Store(time.Now().Add(directPause).UnixNano())
		err = fmt.Errorf("%w (%w)", err, ErrImpatient)
	}
	return Reply{Value: value, Err: err}, true
}

// latestDeadline is ctx with the latest deadline of calls, if all have one.
func latestDeadline(ctx context.Context, calls []Call) context.Context {
	var end time.Time
	for _, c := range calls {
		if c.deadline.IsZero() {
			return ctx
		}
		if c.deadline.After(end) {
			end = c.deadline
		}
	}
	return deadlineContext{ctx, end}
}

// deadlineContext sets a deadline for the socket without a timer.
type deadlineContext struct {
	context.Context
	deadline time.Time
}

// Deadline implements context.Context.
func (c deadlineContext) Deadline() (time.Time, bool) { return c.deadline, true }
