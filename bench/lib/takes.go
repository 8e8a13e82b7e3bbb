package lib

import (
	"context"
	"errors"
	"time"
)

// takes is a Locker made of functions.
type takes struct {
	// take waits for name, where the library waits and wait says so, or makes one attempt.
	take  func(ctx context.Context, name string, wait bool) (release, error)
	close func() error
}

// release releases a hold.
type release func(ctx context.Context) error

func (r release) Release(ctx context.Context) error { return r(ctx) }

func (t takes) Acquire(ctx context.Context, name string) (Hold, error) {
	return t.hold(ctx, name, true)
}
func (t takes) Try(ctx context.Context, name string) (Hold, error) { return t.hold(ctx, name, false) }
func (t takes) Close() error                                       { return t.close() }

func (t takes) hold(ctx context.Context, name string, wait bool) (Hold, error) {
	r, err := t.take(ctx, name, wait)
	if err != nil {
		return nil, err
	}
	return r, nil
}

var errNotHeld = errors.New("it was not held")

// unlessHeld is the outcome of a release that tells whether the lock was held.
func unlessHeld(held bool, err error) error {
	if err == nil && !held {
		err = errNotHeld
	}
	return err
}

// untilTaken tries until the name is free. wait returns when it may be.
func untilTaken(try func() (release, error), wait func() error) (release, error) {
	for {
		r, err := try()
		if !errors.Is(err, ErrHeld) {
			return r, err
		}
		if err := wait(); err != nil {
			return nil, err
		}
	}
}

// loop is the loop that a user of the library would write for a hold, if the configuration asks for it: it extends the lock at a third of the TTL until it is
// released.
func loop(c Config, r release, extend func(ctx context.Context) error) release {
	if !c.Loop {
		return r
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
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
	return func(ctx context.Context) error {
		stop()
		<-over
		return r(ctx)
	}
}
