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
	// patience is how long a claim that is alone waits for the socket itself, and so how late it may return when its context is cancelled.
	patience = 80 * time.Millisecond
	// slowFor is for how long no caller waits for the socket itself after the server has once been slower than that.
	slowFor = 10 * time.Second
)

// ErrImpatient is the error, beside driver.ErrUnknown, of a claim that was sent and not answered at once. It may be made again: then with more patience.
var ErrImpatient = errors.New("not answered at once")

// alone makes c on the caller's goroutine, which saves two switches between goroutines: more than a local Redis takes for the script. A client with
// ContextTimeoutEnabled heeds the deadlines of contexts, though not their cancellation, on which a claim, unlike a release, must return soon: so it gets a deadline
// of its own. false: another way is to be taken.
func (p *Pipe) alone(ctx context.Context, c call) (Reply, bool) {
	claim := c.script == Acquire
	if p.single == nil || !claim && c.script != Release || p.waits(c.script) || ctx.Err() != nil || p.closed.Load() ||
		time.Now().UnixNano() < p.slow.Load() {
		return Reply{}, false
	}
	sooner := ctx
	if end, limited := ctx.Deadline(); claim && (!limited || time.Until(end) > patience) {
		sooner = untilContext{ctx, time.Now().Add(patience)}
	}
	cmd := newCommand(c.args)
	_ = p.single.Process(sooner, cmd) // the command has the error too
	value, err := cmd.outcome()
	var timeout net.Error
	if late := errors.As(err, &timeout) && timeout.Timeout(); isNoScript(err) || late && !cmd.sent(err) {
		return Reply{}, false
	} else if late && sooner != ctx {
		p.slow.Store(time.Now().Add(slowFor).UnixNano())
		err = fmt.Errorf("%w: %w: %w", driver.ErrUnknown, ErrImpatient, err)
	}
	return Reply{Value: value, Err: alsoOf(ctx, Classify(err, cmd.sent(err)))}, true
}

// until is ctx with the last of the deadlines of calls, if all have one.
func until(ctx context.Context, calls []call) context.Context {
	var end time.Time
	for _, c := range calls {
		if c.deadline.IsZero() {
			return ctx
		}
		if c.deadline.After(end) {
			end = c.deadline
		}
	}
	return untilContext{ctx, end}
}

// untilContext has a deadline for the socket, and no timer.
type untilContext struct {
	context.Context
	deadline time.Time
}

// Deadline implements context.Context.
func (c untilContext) Deadline() (time.Time, bool) { return c.deadline, true }
