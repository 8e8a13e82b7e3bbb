// Package cronlock runs each job of a robfig/cron schedule on one of several processes, by the locks of lockport. The README says which clocks and
// intervals this is right for.
package cronlock

import (
	"context"

	"github.com/robfig/cron/v3"

	"github.com/lockport/lockport"
)

// Func is a job that learns that its lock is lost: under [Once] its context ends then, with a cause that matches lockport.ErrLost. It ends as well
// when the Locker is closed (lockport.ErrClosed). It must be the job that Once wraps, not one inside another wrapper.
type Func func(ctx context.Context)

// Run implements cron.Job. Without Once the context never ends.
func (f Func) Run() { f(context.Background()) }

// Once makes a wrapper for one job, which runs under the lock name of l. Each job needs a name of its own, so the wrapper belongs in a chain of that job:
//
//	c.AddJob("@hourly", cron.NewChain(cronlock.Once(locker, "report", cron.DefaultLogger, lockport.MinHold(5*time.Second))).Then(job))
//
// A run does not wait for the lock: if another process has it, or an earlier run in this process, the run is skipped and logger told so. An error is
// logged: the run is skipped if the lock server failed; if the lock was lost the run was not protected to its end. A panic of the job
// releases the lock and goes on.
//
// Give MinHold here or in l's options: without it, processes whose clocks differ run a short job once each. logger must not be nil: cron.DiscardLogger
// logs nothing. The caller closes l after the jobs have ended; with a MinHold that can take as long as that.
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
