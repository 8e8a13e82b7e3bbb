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
	return func(_ context.Context, c measure.Config) (measure.Locker, error) {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: hosts(c)}, KeyValidity: c.TTL, KeyMajority: 1, NoLoopTracking: noTracking,
			// With the default of 20 ms, a server that once takes longer leaves WithContext waiting for a name that nobody has: its own undoing
			// of the request that came too late is not told to it, with NoLoopTracking. A busy machine would decide what is measured.
			TryNextAfter: time.Second,
		})
		if err != nil {
			return measure.Locker{}, err
		}
		end := func() error { locker.Close(); return nil }
		return measure.Locker{Close: end, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
			if ctx.Done() != nil { // ctx is to bound the wait alone: the library's bounds the hold too
				whole, end := context.WithCancel(context.WithoutCancel(ctx))
				stop := context.AfterFunc(ctx, end)
				defer stop()
				ctx = whole
			}
			_, cancel, err := either(wait, locker.WithContext, locker.TryWithContext)(ctx, name)
			err = heldIf(!wait && errors.Is(err, rueidislock.ErrNotLocked), err)
			return func(context.Context) error { cancel(); return nil }, err // cancel waits until the keys are gone
		}}, nil
	}
}
