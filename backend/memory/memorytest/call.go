package memorytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

var (
	// errBroken is why a call that was under way failed.
	errBroken = errors.New("the connection broke")
	// errClosed is why a call of a closed Backend failed.
	errClosed = errors.New("the backend is closed")
)

// call makes one call to the server, with its faults. effect learns how late the call reaches the server, which looks at the context when it does: what
// has ended by then has no effect, so that it can be abandoned. Later it has, though its connection may break before the reply.
func call[T any](ctx context.Context, b *Backend, kind Call, effect func(ctx context.Context, late time.Duration) (T, error)) (T, error) {
	var none T
	sent := time.Now()
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	f, line := b.take(kind)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(line, func() { cancel(errBroken) })()
	defer context.AfterFunc(b.open, func() { cancel(errClosed) })()

	if err := b.travel(ctx, f.delay); err != nil {
		return none, err
	}
	if f.err != nil {
		return none, f.err
	}
	if _, _, down := b.state(); down != nil {
		return none, down
	}
	if f.cut { // also if it waits at the server
		timer := time.AfterFunc(time.Millisecond, b.Cut)
		defer func() {
			if timer.Stop() {
				b.Cut()
			}
		}()
	}
	result, err := effect(ctx, time.Since(sent))
	_, delay, _ := b.state()
	if broken := b.travel(ctx, delay); broken != nil {
		return none, broken
	}
	if f.loseReply || f.cut {
		return none, unknown(errors.New("the reply was lost"))
	}
	return result, err
}

// travel takes a request or a reply past Pause, and lets d pass.
func (b *Backend) travel(ctx context.Context, d time.Duration) error {
	for paused, _, _ := b.state(); paused != nil; paused, _, _ = b.state() {
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

// unknown says that the outcome is unknown because of err.
func unknown(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnknown, err) }
