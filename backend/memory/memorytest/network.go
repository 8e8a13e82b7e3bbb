package memorytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

var (
	// errBroken is why a call under way failed.
	errBroken = errors.New("the connection broke")
	// errClosed is why a call of a closed Backend failed.
	errClosed = errors.New("the backend is closed")
)

// network is the memory.Network of one client.
type network struct {
	*Faults
	open context.Context // ends with Close
}

// kinds are the kinds of the methods; others are Look.
var kinds = map[string]Call{
	"TryAcquire": Claim, "Wait": Claim, "Requeue": Claim, "Attach": Claim, "RenewBatch": Renew, "Detach": Renew, "Release": Release, "Abandon": Abandon,
}

// Send implements memory.Network. The server checks the context when the call arrives. If it has ended by then, the call has no effect, so that the
// claim can be abandoned. Later, the call takes effect even if its connection breaks before the reply.
func (n *network) Send(ctx context.Context, method string) (context.Context, func(error) error, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	kind, ok := kinds[method]
	if !ok {
		kind = Look
	}
	f, conn := n.take(kind)
	ctx, cancel := context.WithCancelCause(ctx)
	unlink, unopen := context.AfterFunc(conn, func() { cancel(errBroken) }), context.AfterFunc(n.open, func() { cancel(errClosed) })
	over := func() { unlink(); unopen(); cancel(nil) }

	err := n.travel(ctx, f.delay)
	if err == nil {
		err = f.err
	}
	if _, _, down := n.state(); err == nil {
		err = down
	}
	if err != nil {
		over()
		return nil, nil, err
	}
	var cut *time.Timer
	if f.cut { // also while it waits at the server
		cut = time.AfterFunc(arrival, n.Cut)
	}
	return ctx, func(err error) error {
		defer over()
		if cut != nil && cut.Stop() {
			defer n.Cut()
		}
		return n.reply(ctx, f, err)
	}, nil
}

// arrival is when a call that Faults.CutAfter cuts has certainly reached the server, even on a busy machine: before, the cut would prevent its effect.
const arrival = 20 * time.Millisecond

// reply carries the server's answer back to the client.
func (n *network) reply(ctx context.Context, f fault, err error) error {
	_, delay, _ := n.state()
	if broken := n.travel(ctx, delay); broken != nil {
		return broken
	}
	if f.loseReply || f.cut {
		return unknown(errors.New("the reply was lost"))
	}
	if ctx.Err() != nil && errors.Is(err, driver.ErrUnknown) { // ctx ended a wait
		return unknown(context.Cause(ctx))
	}
	return err
}

// Tell implements memory.Network.
func (n *network) Tell(callback func()) { n.deliver(callback) }

// travel lets a request or a reply wait for the end of Pause, and then for d.
func (n *network) travel(ctx context.Context, d time.Duration) error {
	for paused, _, _ := n.state(); paused != nil; paused, _, _ = n.state() {
		if err := block(ctx, paused); err != nil {
			return err
		}
	}
	if d <= 0 {
		return nil
	}
	return block(ctx, time.After(d))
}

// block waits for c.
func block[T any](ctx context.Context, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return unknown(context.Cause(ctx))
	}
}

// unknown returns ErrUnknown because of err.
func unknown(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnknown, err) }
