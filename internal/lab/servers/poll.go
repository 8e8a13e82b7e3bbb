package servers

import (
	"context"
	"fmt"
	"time"
)

const (
	// pollTime bounds Poll: far more than a busy machine needs.
	pollTime = time.Minute
	// tryTime bounds one attempt: a server that does not serve may never answer.
	tryTime = 3 * time.Second
)

// Poll calls try, each time for at most 3 s, until it returns nil, ctx ends, or a minute has passed. The error contains try's last error.
func Poll(ctx context.Context, try func(ctx context.Context) error) error {
	const first, longest = 2 * time.Millisecond, 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	for pause := first; ; pause = min(2*pause, longest) {
		trying, cancel := context.WithTimeout(ctx, tryTime)
		err := try(trying)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("gave up: %w; last seen: %w", context.Cause(ctx), err)
		}
	}
}
