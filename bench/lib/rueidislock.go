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
			Open: func(_ context.Context, c Config) (Locker, error) {
				o, err := rueidis.ParseURL(c.URL)
				if err != nil {
					return nil, err
				}
				l, err := rueidislock.NewLocker(rueidislock.LockerOption{
					ClientOption: o, KeyValidity: c.TTL, KeyMajority: 1, NoLoopTracking: v.noTracking,
					// With the default of 20 ms, a server that once takes longer leaves WithContext waiting for a name that nobody has: its own undoing
					// of the request that came too late is not told to it, with NoLoopTracking. A busy machine would decide what is measured.
					TryNextAfter: time.Second,
				})
				if err != nil {
					return nil, err
				}
				return rueidi{l}, nil
			},
		})
	}
}

type rueidi struct{ rueidislock.Locker }

func (r rueidi) Acquire(ctx context.Context, name string) (Hold, error) {
	return detached(ctx, name, r.WithContext)
}

func (r rueidi) Try(ctx context.Context, name string) (Hold, error) {
	h, err := detached(ctx, name, r.TryWithContext)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return nil, ErrHeld
	}
	return h, err
}

// detached has ctx bound the wait alone: the library's bounds the hold too.
func detached(ctx context.Context, name string, take func(context.Context, string) (context.Context, context.CancelFunc, error)) (Hold, error) {
	if ctx.Done() != nil {
		whole, end := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, end)
		defer stop()
		ctx = whole
	}
	_, cancel, err := take(ctx, name)
	if err != nil {
		return nil, err
	}
	return cancelled(cancel), nil
}

func (r rueidi) Close() error {
	r.Locker.Close()
	return nil
}

// cancelled is released by the function that ends its context, which waits until the keys are gone.
type cancelled context.CancelFunc

func (c cancelled) Release(context.Context) error {
	c()
	return nil
}
