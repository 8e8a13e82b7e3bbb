package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport"
)

// errorsCases test P10: the errors of a client.
var errorsCases = group("errors",
	quick("held", "P10 errors: TryAcquire of a held name returns ErrHeld in an *Error with operation, backend and name", func(e *Env) {
		l := e.acquire(e.client(), e.name())
		_, err := e.client().TryAcquire(e.ctx, l.Name())
		e.is(err, "TryAcquire of a held name must return ErrHeld; it returned", lockport.ErrHeld)
		framed, ok := errors.AsType[*lockport.Error](err)
		e.require(ok, "TryAcquire must return an *Error; it returned: %w", err)
		e.require(framed.Op == "try" && framed.Name == l.Name() && framed.Backend == e.caps.Backend, "a field of the *Error is wrong: %+v", *framed)
	}),
	quick("released", "P10 errors: after Release, Err is ErrReleased, another Release returns nil, and the lock is never lost", func(e *Env) {
		l := e.acquire(e.client(), e.name())
		ctx, cancel := l.Context(e.ctx)
		defer cancel()
		err := errors.Join(l.Err(), ctx.Err())
		e.require(err == nil && l.Valid(), "a lock that was just acquired must be valid, without an error; it says: %w", err)
		e.release(l)
		err = l.Err()
		e.require(errors.Is(err, lockport.ErrReleased) && !errors.Is(err, lockport.ErrLost) && !l.Valid(),
			"after Release, Valid is %t and Err returns: %w", l.Valid(), err)
		e.within(ctx.Done(), soon, "the lock's context has not ended %v after Release", soon)
		e.is(context.Cause(ctx), "the cause of the context's end must be ErrReleased; it is", lockport.ErrReleased)
		e.check(l.Release(e.ctx), "the second Release must return nil; it returned")
		e.notLost(l, "Release")
	}),
	quick("context", "P10 errors: an Acquire whose context ends returns the context's error and ErrHeld", func(e *Env) {
		holder, name := e.client(), e.name()
		e.acquire(holder, name)
		for _, c := range []*lockport.Client{holder, e.client()} {
			held := false // a busy server may not have replied yet
			for patience := 150 * time.Millisecond; !held; patience *= 2 {
				short, cancel := context.WithTimeout(e.ctx, patience)
				_, err := c.Acquire(short, name)
				cancel()
				held = errors.Is(err, lockport.ErrHeld)
				e.require(errors.Is(err, context.DeadlineExceeded) && (held || patience <= soon), "Acquire lacks DeadlineExceeded or ErrHeld: %w", err)
			}
		}
	}),
)

// notLost checks that a released lock does not count as lost.
func (e *Env) notLost(l *lockport.Lock, by string) {
	select {
	case <-l.Lost():
		e.failf("%s closed the channel Lost", by)
	default:
	}
}

// reentryCases test P11.
var reentryCases = group("reentry",
	quick("acquire", "P11 no silent re-entry: of a name that the same client holds, TryAcquire returns ErrHeld, and Acquire waits for its release", func(e *Env) {
		c := e.client()
		l := e.acquire(c, e.name())
		second := e.begin(c, l.Name())
		for range 5 {
			e.is(errOf(c.TryAcquire(e.ctx, l.Name())), "this client holds the name, yet TryAcquire was not ErrHeld but", lockport.ErrHeld)
			second.notYet(10*time.Millisecond, "the same client holds the name")
		}
		e.release(l)
		e.release(second.granted(soon, "the name was released"))
		again, err := c.TryAcquire(e.ctx, l.Name())
		e.check(err, "TryAcquire of a released name")
		e.release(again)
	}),
	full("try-without-a-request", "P11 no silent re-entry: TryAcquire of a name that the same client holds sends no request", func(e *Env) {
		c := e.patient()
		l := e.acquire(c, e.name())
		const n = 1000
		before := e.requests()
		for range n {
			e.is(errOf(c.TryAcquire(e.ctx, l.Name())), "this client holds the name, yet TryAcquire was not ErrHeld but", lockport.ErrHeld)
		}
		sent := e.requests() - before
		e.require(sent <= n/20, "%d calls sent %d requests", n, sent) // renewals account for a few
		e.release(l)
	}, "Requests"),
)
