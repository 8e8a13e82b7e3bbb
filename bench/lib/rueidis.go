package lib

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockport/lockport/internal/lab/measure"
)

func openRueidis(noTracking bool) func(context.Context, measure.Config) (measure.Locker, error) {
	return func(_ context.Context, c measure.Config) (l measure.Locker, err error) {
		o, err := rueidis.ParseURL(c.URL)
		if err != nil {
			return l, err
		}
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: o, KeyValidity: c.TTL, KeyMajority: 1, NoLoopTracking: noTracking,
			// With the default of 20 ms, a server that once takes longer leaves WithContext waiting for a name that nobody has: its own undoing
			// of the request that came too late is not told to it, with NoLoopTracking. A busy machine would decide what is measured.
			TryNextAfter: time.Second,
		})
		if err != nil {
			return l, err
		}
		return measure.Locker{Close: func() error { locker.Close(); return nil }, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
			if ctx.Done() != nil { // ctx is to bound the wait alone: the library's bounds the hold too
				whole, end := context.WithCancel(context.WithoutCancel(ctx))
				stop := context.AfterFunc(ctx, end)
				defer stop()
				ctx = whole
			}
			take := locker.TryWithContext
			if wait {
				take = locker.WithContext
			}
			_, cancel, err := take(ctx, name)
			if !wait && errors.Is(err, rueidislock.ErrNotLocked) {
				err = measure.ErrHeld
			}
			return func(context.Context) error { cancel(); return nil }, err // cancel waits until the keys are gone
		}}, nil
	}
}
