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

// poll calls try until it returns nil, which is what poll then returns, or stopPolling, or ctx ends. Then the last
// thing that try said is in the error.
func poll(ctx context.Context, try func() error) error {
	const first, longest = 2 * time.Millisecond, 50 * time.Millisecond
	for pause := first; ; pause = min(2*pause, longest) {
		err := try()
		var stop stopPolling
		switch {
		case err == nil:
			return nil
		case errors.As(err, &stop):
			return stop.error
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("servers: gave up: %w; last seen: %w", context.Cause(ctx), err)
		}
	}
}
