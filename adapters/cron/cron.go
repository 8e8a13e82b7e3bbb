// Package cronlock runs each job of a robfig/cron schedule on one of several processes, with lockport's locks. The README has the conditions on
// clocks and intervals.
package cronlock

import (
	"context"

	"github.com/robfig/cron/v3"

	"github.com/lockport/lockport"
)

// Func is a job that learns of the loss of its lock: under [Once] its context then ends, with a cause that matches lockport.ErrLost. The context
// also ends when the Locker is closed (lockport.ErrClosed). Pass the Func itself to Once's wrapper, not inside another wrapper.
type Func func(ctx context.Context)

// Run implements cron.Job. Without Once the context never ends.
func (f Func) Run() { f(context.Background()) }

// Once returns a wrapper for one job, which runs under the lock name of l. Each job needs its own name, so use the wrapper in a chain of that job:
//
//	c.AddJob("@hourly", cron.NewChain(cronlock.Once(locker, "report", cron.DefaultLogger, lockport.MinHold(5*time.Second))).Then(job))
//
// A run does not wait for the lock. If another process, or an earlier run in this one, has the lock, the run is skipped and logged. If the lock
// server fails, the run is skipped and the error logged. If the lock is lost during the run, the error is logged: the lock did not
// protect the run to its end. A panic of the job releases the lock and propagates.
//
// Set MinHold here or in l's options: without it, processes whose clocks differ run a short job once each. logger must not be nil;
// cron.DiscardLogger logs nothing. Close l after the jobs have ended; that can take as long as MinHold.
func Once(l lockport.Locker, name string, logger cron.Logger, opts ...lockport.AcquireOption) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			run, err := lockport.TryDo(context.Background(), l, name, func(ctx context.Context, _ *lockport.Lock) error {
				if f, ok := job.(Func); ok {
					f(ctx)
				} else {
					job.Run()
				}
				return nil
			}, opts...)
			switch {
			case err != nil && run:
				logger.Error(err, "lock failed during the run", "job", name)
			case err != nil:
				logger.Error(err, "skip: no lock", "job", name)
			case !run:
				logger.Info("skip: locked", "job", name)
			}
		})
	}
}
