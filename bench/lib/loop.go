package lib

import (
	"context"
	"time"
)

// renewed is a hold with the loop that a user of the library would write for it: it extends the lock at a third of the TTL until it is released.
type renewed struct {
	Hold
	stop context.CancelFunc
	over chan struct{}
}

// loop starts that loop, if it is asked for.
func loop(c Config, h Hold, extend func(ctx context.Context) error) Hold {
	if !c.Loop {
		return h
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &renewed{Hold: h, stop: stop, over: make(chan struct{})}
	go func() {
		defer close(r.over)
		tick := time.NewTicker(c.TTL / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = extend(ctx) // it is tried again, as long as the lock is held
			case <-ctx.Done():
				return
			}
		}
	}()
	return r
}

func (r *renewed) Release(ctx context.Context) error {
	r.stop()
	<-r.over
	return r.Hold.Release(ctx)
}
