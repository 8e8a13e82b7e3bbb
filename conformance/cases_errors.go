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
		ctx := e.ctx
		a, b := e.client(), e.client()
		name := e.name()
		e.acquire(a, name)
		_, err := b.TryAcquire(ctx, name)
		var framed *lockport.Error
		if !errors.Is(err, lockport.ErrHeld) || !errors.As(err, &framed) {
			e.failf("TryAcquire returned: %w", orNone(err))
		}
		if framed.Op != "try" || framed.Name != name || framed.Backend != e.caps.Backend {
			e.failf("the error's frame is %+v", *framed)
		}
	}),
	quick("released", "P10 errors: a lock that was released says ErrReleased, releases again with nil, and is never lost", func(e *Env) {
		ctx := e.ctx
		l := e.acquire(e.client(), e.name())
		held, cancel := l.Context(ctx)
		defer cancel()
		if err := l.Err(); err != nil || !l.Valid() || held.Err() != nil {
			e.failf("a lock that was just acquired says: %w", errors.Join(err, held.Err()))
		}
		e.release(l)
		if err := l.Err(); !errors.Is(err, lockport.ErrReleased) || errors.Is(err, lockport.ErrLost) || l.Valid() {
			e.failf("after Release, Valid is %t, and Err: %w", l.Valid(), orNone(err))
		}
		e.within(held.Done(), soon, "the lock's context has not ended %v after Release", soon)
		if cause := context.Cause(held); !errors.Is(cause, lockport.ErrReleased) {
			e.failf("the cause of the context's end is: %w", orNone(cause))
		}
		e.check(l.Release(ctx), "the second Release returned")
		select {
		case <-l.Lost():
			e.failf("Lost was closed by Release")
		default:
		}
	}),
	quick("context", "P10 errors: an Acquire whose context ends says so, and what it waited for", func(e *Env) {
		ctx := e.ctx
		a, b := e.client(), e.client()
		name := e.name()
		e.acquire(a, name)
		for _, c := range []*lockport.Client{a, b} {
			for patience := 150 * time.Millisecond; ; patience *= 2 {
				short, cancel := context.WithTimeout(ctx, patience)
				_, err := c.Acquire(short, name)
				cancel()
				held := errors.Is(err, lockport.ErrHeld) // a busy server may not have said so yet
				if !errors.Is(err, context.DeadlineExceeded) || !held && patience > soon {
					e.failf("Acquire returned: %w", orNone(err))
				}
				if held {
					break
				}
			}
		}
	}),
	quick("closed", "P10 errors: a closed Locker says ErrClosed", func(e *Env) {
		ctx := e.ctx
		c := e.client()
		e.check(c.Close(), "Close")
		e.check(c.Close(), "a second Close")
		_, acquire := c.Acquire(ctx, e.name())
		_, try := c.TryAcquire(ctx, e.name())
		if !errors.Is(acquire, lockport.ErrClosed) || !errors.Is(try, lockport.ErrClosed) {
			e.failf("Acquire returned: %w; TryAcquire: %w", orNone(acquire), orNone(try))
		}
	}),
	full("acquire-server-gone",
		"P10 errors: the first Acquire of a name on a server that is not there is ErrUnavailable, in time and without the password; "+
			"when the server is back, the next one succeeds", func(e *Env) {
			ctx := e.ctx
			c := e.client()
			name := e.name()
			e.sever()
			for range 2 {
				start := time.Now()
				long, cancel := context.WithTimeout(ctx, 4*callTime)
				_, err := c.Acquire(long, name)
				cancel()
				e.is(err, lockport.ErrUnavailable, "Acquire returned")
				if took := time.Since(start); took > 2*callTime {
					e.failf("Acquire took %v", took)
				}
				e.noPassword(err)
			}
			e.restore()
			var l *lockport.Lock
			e.eventually(e.takeover()+callTime, func() bool {
				var err error
				l, err = c.Acquire(ctx, name)
				return err == nil
			}, "the server is back, so Acquire succeeds")
			e.release(l)
		}).needing(NeedSever),
)

// reentryCases are about P11.
var reentryCases = group("reentry",
	quick("try", "P11 no silent re-entry: TryAcquire of a name that the same client has is ErrHeld", func(e *Env) {
		ctx := e.ctx
		c := e.client()
		l := e.acquire(c, e.name())
		for range 3 {
			e.is(errOf(c.TryAcquire(ctx, l.Name())), lockport.ErrHeld, "TryAcquire returned")
		}
		e.release(l)
		again, err := c.TryAcquire(ctx, l.Name())
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
		ctx := e.ctx
		c := e.client()
		l := e.acquire(c, e.name(), ttlIfFree(e, 20*e.ttl)...)
		const n = 1000
		before := e.requests()
		for range n {
			e.is(errOf(c.TryAcquire(ctx, l.Name())), lockport.ErrHeld, "TryAcquire returned")
		}
		if sent := e.requests() - before; sent > n/20 { // a few are for other things, such as renewals
			e.failf("%d calls sent %d requests", n, sent)
		}
		e.release(l)
	}).needing(NeedRequests),
)
