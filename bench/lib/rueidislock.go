package lib

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func init() {
	for _, v := range []struct {
		name, how  string
		noTracking bool
		only       []string
	}{
		{"rueidislock", "with NoLoopTracking, which is its fastest", true, nil},
		{"rueidislock, loop tracking", "with loop tracking, which is its default", false, []string{"cycle", "own-"}},
	} {
		register(Library{
			Name: v.name, Only: v.only, Family: "redis", Kind: Theirs, Module: "github.com/redis/rueidis",
			How:     "WithContext " + v.how + ", TryNextAfter of 1s, and the returned cancel",
			Renewal: Renews, Waits: true,
			Open: func(_ context.Context, c Config) (Locker, error) { return openRueidis(c, v.noTracking) },
		})
	}
}

func openRueidis(c Config, noTracking bool) (Locker, error) {
	o, err := rueidis.ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: o, KeyValidity: c.TTL, KeyMajority: 1, NoLoopTracking: noTracking,
		// With the default of 20 ms, a server that once takes longer leaves WithContext waiting for a name that nobody has: its own undoing
		// of the request that came too late is not told to it, with NoLoopTracking. A busy machine would decide what is measured.
		TryNextAfter: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return takes{func(ctx context.Context, name string, wait bool) (release, error) {
		if ctx.Done() != nil { // ctx is to bound the wait alone: the library's bounds the hold too
			whole, end := context.WithCancel(context.WithoutCancel(ctx))
			stop := context.AfterFunc(ctx, end)
			defer stop()
			ctx = whole
		}
		take := l.TryWithContext
		if wait {
			take = l.WithContext
		}
		_, cancel, err := take(ctx, name)
		if !wait && errors.Is(err, rueidislock.ErrNotLocked) {
			return nil, ErrHeld
		}
		return func(context.Context) error { cancel(); return nil }, err // cancel waits until the keys are gone
	}, func() error { l.Close(); return nil }}, nil
}
