package memorytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

var (
	// errDown is why a call that was on its way failed.
	errDown = errors.New("the connection broke")
	// errClosed is why a call of a closed Backend failed.
	errClosed = errors.New("the backend is closed")
)

// call makes one call to the server, with the faults that were asked for. effect is told how late the call reaches the server.
func (b *Backend) call(ctx context.Context, kind Call, effect func(late time.Duration) error) error {
	sent := time.Now()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	f := b.Faults.take(kind)
	if err := b.pass(ctx); err != nil {
		return err
	}
	if err := b.sleep(ctx, f.delay); err != nil {
		return err
	}
	if f.err != nil {
		return f.err
	}
	if _, _, down := b.state(); down != nil {
		return down
	}
	err := effect(time.Since(sent))
	if err := b.pass(ctx); err != nil {
		return err
	}
	_, delay, _ := b.state()
	if err := b.sleep(ctx, delay); err != nil {
		return err
	}
	if f.loseReply {
		return unknown(errors.New("the reply was lost"))
	}
	return err
}

// pass returns once calls get through.
func (b *Backend) pass(ctx context.Context) error {
	for {
		paused, _, _ := b.state()
		if paused == nil {
			return nil
		}
		if err := block(ctx, b, paused); err != nil {
			return err
		}
	}
}

// sleep lets d pass.
func (b *Backend) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	return block(ctx, b, t.C)
}

// block waits for c.
func block[T any](ctx context.Context, b *Backend, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return unknown(ctx.Err())
	case <-b.closed:
		return unknown(errClosed)
	}
}

// unknown says that the outcome is unknown because of err.
func unknown(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnknown, err) }
