package conformance

import (
	"context"
	"sync"
	"time"
)

// call is a call in a goroutine of its own.
type call[T any] struct {
	e      *Env
	what   string // "Acquire"
	cancel context.CancelFunc
	over   chan struct{}
	result T
	err    error
}

// begin starts a call, and cancels it when the case ends.
func begin[T any](e *Env, what string, f func(context.Context) (T, error)) *call[T] {
	ctx, cancel := context.WithCancel(e.ctx)
	c := &call[T]{e: e, what: what, cancel: cancel, over: make(chan struct{})}
	e.after(c.stop)
	go func() {
		defer close(c.over)
		defer e.catch()
		c.result, c.err = f(ctx)
	}()
	return c
}

// start is begin for a call without a result.
func (e *Env) start(what string, f func(context.Context) error) *call[struct{}] {
	return begin(e, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
}

// stop cancels the call and waits for its end.
func (c *call[T]) stop() {
	c.cancel()
	<-c.over
}

// isOver reports whether the call has returned.
func (c *call[T]) isOver() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// notYet checks that the call has not returned after d.
func (c *call[T]) notYet(d time.Duration, why string) {
	select {
	case <-c.over:
		c.e.require(c.err != nil, "%s, yet %s returned without an error (%w)", why, c.what, errGranted)
		c.e.failf("%s, so %s must wait, but it returned: %w", why, c.what, c.err)
	case <-time.After(d):
	}
}

// ended waits for the call to return, with an error or without.
func (c *call[T]) ended(limit time.Duration, why string) (T, error) {
	c.e.within(c.over, limit, "%s, but %s %w after %v", why, c.what, errNotOver, limit)
	return c.result, c.err
}

// granted waits for the call to succeed.
func (c *call[T]) granted(limit time.Duration, why string) T {
	c.e.within(c.over, limit, "%s, but %s %w within %v", why, c.what, errNotGranted, limit)
	c.e.check(c.err, "%s, but %s returned", why, c.what)
	return c.result
}

// storm calls f in n goroutines, with the goroutine's number, and waits for all. An error ends the context of all, and the case.
func (e *Env) storm(n int, f func(ctx context.Context, i int) error) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer func() { // after catch
				if e.failure() != nil {
					cancel()
				}
			}()
			defer e.catch()
			if err := f(ctx, i); err != nil {
				e.fail(err)
			}
		})
	}
	all.Wait()
	e.stopIfFailed()
}

// endsInTime makes a call whose context ends soon, and checks that it returns soon afterwards.
func (e *Env) endsInTime(what string, f func(context.Context) error) error {
	const patience = 200 * time.Millisecond
	return e.inTime(what, patience, patience+endTime, f)
}

// inTime makes a call whose context ends after patience. It checks that the call returns within limit, and that its error does not
// show the password.
func (e *Env) inTime(what string, patience, limit time.Duration, f func(context.Context) error) error {
	c := e.start(what, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return f(ctx)
	})
	e.within(c.over, limit, "%s %w after %v; its context ends after %v", what, errNotOver, limit, patience)
	e.noPassword(c.err)
	return c.err
}
