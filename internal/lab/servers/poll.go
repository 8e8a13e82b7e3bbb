package servers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stopPolling is an error that waiting longer will not cure.
type stopPolling struct{ error }

// Unwrap returns what stopped the polling.
func (s stopPolling) Unwrap() error { return s.error }

// Poll calls try until it returns nil or stopPolling, or ctx ends. Then the last thing that try said is in the error.
func Poll(ctx context.Context, try func() error) error {
	const first, longest = 2 * time.Millisecond, 50 * time.Millisecond
	for pause := first; ; pause = min(2*pause, longest) {
		err := try()
		if err == nil || errors.As(err, new(stopPolling)) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("gave up: %w; last seen: %w", context.Cause(ctx), err)
		}
	}
}

// pollFor is Poll for at most startTime.
func pollFor(ctx context.Context, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return Poll(ctx, func() error { return try(ctx) })
}
