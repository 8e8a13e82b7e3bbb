package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport"
)

// errorsCases are about P10: what a user is told.
var errorsCases = group("errors",
	quick("held", "P10 errors: TryAcquire of a name that somebody else has is ErrHeld, in an *Error with operation, backend and name", func(e *Env) {
		l := e.acquire(e.client(), e.name())
		_, err := e.client().TryAcquire(e.ctx, l.Name())
		e.is(err, "TryAcquire returned", lockport.ErrHeld)
		var framed *lockport.Error
		e.require(errors.As(err, &framed), "TryAcquire returned: %w", err)
		e.require(framed.Op == "try" && framed.Name == l.Name() && framed.Backend == e.caps.Backend, "the error's frame is %+v", *framed)
	}),
	quick("released", "P10 errors: a lock that was released says ErrReleased, releases again with nil, and is never lost", func(e *Env) {
		l := e.acquire(e.client(), e.name())
		w := e.watch(l)
		err := errors.Join(l.Err(), w.ctx.Err())
		e.require(err == nil && l.Valid(), "a lock that was just acquired says: %w", err)
		e.release(l)
		err = l.Err()
		e.require(errors.Is(err, lockport.ErrReleased) && !errors.Is(err, lockport.ErrLost) && !l.Valid(),
			"after Release, Valid is %t, and Err: %w", l.Valid(), err)
		e.within(w.ctx.Done(), soon, "the lock's context has not ended %v after Release", soon)
		e.is(context.Cause(w.ctx), "the cause of the context's end is", lockport.ErrReleased)
		e.check(l.Release(e.ctx), "the second Release returned")
		e.notLost(l, "Release")
	}),
	quick("context", "P10 errors: an Acquire whose context ends says so, and what it waited for", func(e *Env) {
		holder, name := e.client(), e.name()
		e.acquire(holder, name)
		for _, c := range []*lockport.Client{holder, e.client()} {
			held := false // a busy server may not have said so yet
			for patience := 150 * time.Millisecond; !held; patience *= 2 {
				short, cancel := context.WithTimeout(e.ctx, patience)
				_, err := c.Acquire(short, name)
				cancel()
				held = errors.Is(err, lockport.ErrHeld)
				e.require(errors.Is(err, context.DeadlineExceeded) && (held || patience <= soon), "Acquire returned: %w", err)
			}
		}
	}),
	quick("closed", "P10 errors: a closed Locker says ErrClosed", func(e *Env) {
		c := e.client()
		e.check(c.Close(), "Close")
		e.check(c.Close(), "a second Close")
		e.is(errOf(c.Acquire(e.ctx, e.name())), "Acquire returned", lockport.ErrClosed)
		e.is(errOf(c.TryAcquire(e.ctx, e.name())), "TryAcquire returned", lockport.ErrClosed)
	}),
	full("acquire-server-gone",
		"P10 errors: the first Acquire of a name on a server that is not there is ErrUnavailable, in time and without the password; "+
			"when the server is back, the next one succeeds", func(e *Env) {
			c, name := e.client(), e.name()
			e.sever()
			for range 2 {
				start := time.Now()
				long, cancel := context.WithTimeout(e.ctx, 4*callTime)
				_, err := c.Acquire(long, name)
				cancel()
				took := time.Since(start)
				e.is(err, "Acquire returned", lockport.ErrUnavailable)
				e.require(took <= 2*callTime, "Acquire took %v", took)
				e.noPassword(err)
			}
			e.restore()
			e.eventually(e.takeover()+callTime, func() bool {
				l, err := c.Acquire(e.ctx, name)
				if err == nil {
					e.release(l)
				}
				return err == nil
			}, "the server is back, so Acquire succeeds")
		}, "Sever"),
)

// notLost checks that a lock that was given back is not said to be lost.
func (e *Env) notLost(l *lockport.Lock, by string) {
	select {
	case <-l.Lost():
		e.failf("Lost was closed by %s", by)
	default:
	}
}

// reentryCases are about P11.
var reentryCases = group("reentry",
	quick("try", "P11 no silent re-entry: TryAcquire of a name that the same client has is ErrHeld", func(e *Env) {
		c := e.client()
		l := e.acquire(c, e.name())
		for range 3 {
			e.is(errOf(c.TryAcquire(e.ctx, l.Name())), "TryAcquire returned", lockport.ErrHeld)
		}
		e.release(l)
		again, err := c.TryAcquire(e.ctx, l.Name())
		e.check(err, "TryAcquire of a name that was released")
		e.release(again)
	}),
	quick("acquire", "P11 no silent re-entry: Acquire of a name that the same client has waits for its release", func(e *Env) {
		c := e.client()
		l := e.acquire(c, e.name())
		second := e.begin(c, l.Name())
		second.notYet(50*time.Millisecond, "the same client has the name")
		e.release(l)
		e.release(second.granted(soon, "the name was released"))
	}),
	full("try-without-a-request", "P11 no silent re-entry: TryAcquire of a name that the same client has needs no request", func(e *Env) {
		c := e.client()
		l := e.acquire(c, e.name(), e.ttlIfFree(20*e.ttl)...)
		const n = 1000
		before := e.requests()
		for range n {
			e.is(errOf(c.TryAcquire(e.ctx, l.Name())), "TryAcquire returned", lockport.ErrHeld)
		}
		sent := e.requests() - before
		e.require(sent <= n/20, "%d calls sent %d requests", n, sent) // a few are for other things, such as renewals
		e.release(l)
	}, "Requests"),
)
