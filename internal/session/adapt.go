package session

import "context"

// Callbacks is a connection that tells the end of a request by a callback. It goes away with the last backend that has one.
type Callbacks interface {
	Do(ctx context.Context, ops []*Op, done func(error))
	Wait(ctx context.Context, op *Op, done func(error))
}

// Adapt makes a Conn's Do, Wait and Listen of c, whose end ended tells, and which end ends.
func Adapt(c Callbacks, ended <-chan error, end func()) Adapted { return Adapted{c, ended, end} }

// Adapted is what Adapt makes.
type Adapted struct {
	c     Callbacks
	ended <-chan error
	end   func()
}

// Do implements Conn.
func (a Adapted) Do(ctx context.Context, ops []*Op) error {
	return a.await(ctx, func(done func(error)) { a.c.Do(ctx, ops, done) })
}

// Wait implements Conn.
func (a Adapted) Wait(ctx context.Context, op *Op) error {
	return a.await(ctx, func(done func(error)) { a.c.Wait(ctx, op, done) })
}

func (a Adapted) await(ctx context.Context, ask func(done func(error))) error {
	done := make(chan error, 1)
	ask(func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		a.end()
		return <-done
	}
}

// Listen implements Conn.
func (a Adapted) Listen(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-a.ended:
		return err
	}
}
