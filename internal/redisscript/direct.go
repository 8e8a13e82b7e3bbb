package redisscript

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

const (
	// directWait is how long a direct claim waits on the socket, and so how late it may return after its context is canceled.
	directWait = 80 * time.Millisecond
	// directPause is how long all calls use the queue after a direct claim took longer than directWait: no answer came, or a hook blocked.
	directPause = 10 * time.Second
)

// direct runs c on the caller's goroutine. That saves two goroutine switches, which take longer than the script on a local Redis. It needs
// ContextTimeoutEnabled: the client then honors context deadlines, but not cancellation. A claim, unlike a release, must return soon after
// cancellation, so it gets a deadline of its own. false: c was not run.
func (p *Pipe) direct(ctx context.Context, c Call) (Reply, bool) {
	claim := c.script == Acquire
	if p.single == nil || !claim && c.script != Release || p.waits(c.script) || ctx.Err() != nil || p.closed.Load() ||
		time.Now().UnixNano() < p.slow.Load() {
		return Reply{}, false
	}
	start, sooner := time.Now(), ctx
	if end, limited := ctx.Deadline(); claim && (!limited || time.Until(end) > directWait) {
		sooner = deadlineContext{ctx, time.Now().Add(directWait)}
	}
	cmd := newCommand(c.args)
	_ = p.single.Process(sooner, cmd) // cmd has the error too
	value, err := cmd.outcome()
	if claim && time.Since(start) > directWait {
		p.slow.Store(time.Now().Add(directPause).UnixNano())
	}
	if isNoScript(err) {
		return Reply{}, false
	}
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() || sooner == ctx {
		return Reply{Value: value, Err: err}, true
	}
	if errors.Is(err, driver.ErrUnavailable) { // no connection within directWait
		return Reply{}, false
	}
	return p.again(ctx, c), true
}

// again repeats the claim c, which was sent and not answered within directWait: it waits as long as ctx, and the server refuses the first request.
func (p *Pipe) again(ctx context.Context, c Call) Reply {
	c.script, c.args = acquireAgain, slices.Clone(c.args)
	c.args[1] = acquireAgain.sha
	r := p.Run(ctx, c)
	if r.Err != nil && !errors.Is(r.Err, driver.ErrUnknown) { // the first request may still run
		r.Err = fmt.Errorf("%w: after a request that was not answered: %v", driver.ErrUnknown, r.Err)
	}
	return r
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
