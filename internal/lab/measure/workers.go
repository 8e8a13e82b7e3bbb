package measure

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/worker"
)

// Workers are worker processes, each with the same library.
type Workers struct{ all worker.Group[order, answer] }

// Start starts n workers. The caller must Close or Kill them.
func Start(ctx context.Context, c Config, n int) (*Workers, error) {
	all, err := kind.StartAll(ctx, c, n)
	if err != nil {
		return nil, err
	}
	return &Workers{all}, nil
}

// Close has the workers release what they hold, and returns when they have ended. A worker that takes too long is killed. w may be nil.
func (w *Workers) Close() {
	if w != nil {
		w.all.Close()
	}
}

// Kill ends the workers at once. w may be nil.
func (w *Workers) Kill() {
	if w != nil {
		w.all.Kill()
	}
}

// grantLimit is how long a lock that was released at once may take to be granted.
const grantLimit = 20 * time.Second

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sleep ends early with ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
