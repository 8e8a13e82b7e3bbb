package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
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

// Close has the workers release what they hold, and returns when they have ended. A worker that takes too long is killed.
func (w *Workers) Close() { w.all.Close() }

// Kill ends the workers at once.
func (w *Workers) Kill() { w.all.Kill() }

// grantLimit bounds the grant of a lock that is free, or was released at once.
const grantLimit = 20 * time.Second

// acquire has a worker acquire name and keep it. await returns when Acquire returned in the worker.
func acquire(from *worker.Handle[order, answer], name string, limit time.Duration) (await func(context.Context) (history.Instant, error)) {
	answered := from.Send(order{Do: "acquire", Name: name, For: limit})
	return func(ctx context.Context) (history.Instant, error) {
		a, err := answered(ctx)
		return a.At, err
	}
}

// passed is the time from the end of one hold to the grant of the next. A correct lock makes none that is negative.
func passed(ended, granted history.Instant, end string) (time.Duration, error) {
	if granted < ended {
		return 0, fmt.Errorf("it was had by the next %v before %s", ended.Sub(granted), end)
	}
	return granted.Sub(ended), nil
}

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
