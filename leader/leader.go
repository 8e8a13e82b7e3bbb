package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockport/lockport"
)

// Func leads for one term. Its context carries the term for lockport.Reenter. The context ends when the lock is lost, only Grace is left until
// its Deadline (ErrGrace), or the context of Run has ended; its cause says which. Func should then return soon; Run waits for it. term is the lock:
// its Token is that of this term. Func must neither release nor detach it.
type Func func(ctx context.Context, term *lockport.Lock) error

// Run campaigns for name and calls fn while it leads, again and again, until ctx ends. After fn has returned and the lock is released, Run returns
// the cause of ctx's end.
//
// A term ends when fn returns, for any reason. Run then releases the lock, pauses (see [Backoff]) and campaigns again, even if fn returned nil. So fn
// returns early to let another process lead. To stop Run, end ctx; use a CancelCauseFunc to choose the error that Run returns. Run never returns an
// error of fn; [Observe] reports those.
//
// Run does not return when a lock is lost or the server cannot be reached. It returns errors that a retry does not fix: ErrRefused, ErrClosed,
// ErrInvalidName, ErrInvalidOption and errors.ErrUnsupported.
//
// If fn panics, Run releases the lock and panics. Close locker only after Run has returned: closing it releases its locks at once. Several calls of
// Run may share locker, and compete if they share name too.
func Run(ctx context.Context, locker lockport.Locker, name string, fn Func, opts ...Option) error {
	c := &candidate{fn: fn, least: DefaultLeast, most: DefaultMost}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o(c); err != nil {
			return err
		}
	}
	for failures := 0; ; {
		c.report(Change{State: Campaigning})
		term, err := locker.Acquire(ctx, name)
		permanent, closed := isPermanent(err), false
		failures++
		if err == nil {
			began := time.Now()
			err = c.lead(ctx, term)
			permanent = c.graceTooLong(term)
			closed = errors.Is(term.Err(), lockport.ErrClosed) // the next Acquire says so; fn's error may speak of another locker
			if err == nil || time.Since(began) >= c.most {
				failures = 0
			}
		}
		idle := Change{State: Idle, Err: err}
		over := permanent || ctx.Err() != nil
		if !over && !closed {
			idle.Pause = c.pause(failures)
		}
		c.report(idle)
		if over {
			return cmp.Or(context.Cause(ctx), err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(idle.Pause):
		}
	}
}

// isPermanent reports whether an acquisition failed for a reason that a retry does not fix.
func isPermanent(err error) bool {
	classes := []error{lockport.ErrRefused, lockport.ErrClosed, lockport.ErrInvalidName, lockport.ErrInvalidOption, errors.ErrUnsupported}
	return slices.ContainsFunc(classes, func(class error) bool { return errors.Is(err, class) })
}

// lead leads for one term. It returns after fn has returned and the lock is released. err is why the term ended; nil: fn returned nil, or ctx ended
// it.
func (c *candidate) lead(ctx context.Context, term *lockport.Lock) (err error) {
	lock, cancel := term.Context(ctx)
	held, end := context.WithCancelCause(lock)
	endReport := func() {}
	defer func() { // fn has returned, or panics
		panics := err == errPanics
		endReport()
		cause, ctxErr := context.Cause(held), held.Err() // nil if fn returned first
		end(nil)
		cancel()
		ended, released := cause, term.Release(ctx)
		switch {
		case cause == nil, ctx.Err() != nil, errors.Is(released, lockport.ErrLost):
			ended = released
		case released != nil: // Grace ended the term
			ended = fmt.Errorf("%w; %w", cause, released)
		}
		switch {
		case err == nil, errors.Is(ctxErr, err), errors.Is(cause, err), errors.Is(ended, err): // fn's error says only that its context has ended
			err = ended
		case ended != nil:
			err = fmt.Errorf("%w; %w", ended, err)
		}
		if panics {
			c.report(Change{State: Idle, Err: err})
		}
	}()
	if c.grace > 0 {
		if c.graceTooLong(term) {
			return errGraceTooLong
		}
		c.awaitRoom(held, term)
		go c.endEarly(held, end, term)
	}
	if held.Err() != nil {
		return nil // it ended before fn could begin
	}
	c.report(Change{State: Leading, Term: term})
	endReport = c.reportStopping(held, term)
	err = errPanics // unless fn returns
	return c.fn(held, term)
}

var errPanics = errors.New("leader: fn panicked")

func (c *candidate) graceTooLong(term *lockport.Lock) bool { return c.grace > term.TTL()/2 }

// left is how long fn may still lead. false: the term has ended, or lasts until its session does.
func (c *candidate) left(term *lockport.Lock) (time.Duration, bool) {
	deadline, ok := term.Deadline()
	return time.Until(deadline) - c.grace, ok
}

// awaitRoom waits until the term has room for a renewal beside Grace, for at most Grace. The claim of a session, or of a lease that others share, can
// be granted with little of its validity left; then it is renewed at once.
func (c *candidate) awaitRoom(held context.Context, term *lockport.Lock) {
	for began := time.Now(); held.Err() == nil && time.Since(began) < c.grace; {
		if left, ok := c.left(term); !ok || left > term.TTL()/8 {
			return
		}
		select {
		case <-held.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// endEarly ends fn's context when only grace is left until the term's deadline.
func (c *candidate) endEarly(held context.Context, end context.CancelCauseFunc, term *lockport.Lock) {
	for left, ok := c.left(term); ok && held.Err() == nil; left, ok = c.left(term) {
		if left <= 0 {
			end(ErrGrace)
		}
		select {
		case <-held.Done():
		case <-time.After(min(left, 250*time.Millisecond)): // Go's timers stand still while the machine is suspended
		}
	}
}

// pause is how long to wait after so many failures in a row. It is random between half of the backoff and all of it, so that candidates that failed
// together do not retry together (M. Brooker, Exponential Backoff And Jitter, 2015).
func (c *candidate) pause(failures int) time.Duration {
	d := c.least
	for n := 1; n < failures && d < c.most; n++ {
		d *= 2
	}
	d = min(d, c.most)
	return d - rand.N(d/2+1)
}
