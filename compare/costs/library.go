package costs

import (
	"context"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/measure"
)

// WorkerMain is the first line of main, and of TestMain. In a process that was started as a worker it works and exits; in any other process it returns at
// once. The program must import the backends.
func WorkerMain() {
	measure.WorkerMain(func(ctx context.Context, c measure.Config) (measure.Locker, error) {
		if c.Library == pinging {
			return openPing(ctx, c.URL)
		}
		return measure.Open(ctx, c, lockport.Label("compare"))
	})
}
