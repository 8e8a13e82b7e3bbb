package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// optionsCases are about what New and Acquire can be given, and Do.
var optionsCases = group("options",
	quick("max-hold", "options: MaxHold ends a hold as lost, with ErrMaxHold, and the name is free", func(e *Env) {
		a, b := e.client(), e.client()
		const most = 120 * time.Millisecond
		start := time.Now()
		l := e.acquire(a, e.name(), lockport.MaxHold(most))
		next := e.begin(b, l.Name())
		got := next.granted(soon+most, "the hold lasted as long as MaxHold allows")
		if took := time.Since(start); took < most {
			e.failf("another client got the name after %v, where MaxHold is %v", took, most)
		}
		e.saysLost(l)
		if !errors.Is(l.Err(), lockport.ErrMaxHold) {
			e.failf("Err is: %w", l.Err())
		}
		e.is(l.Release(e.ctx), lockport.ErrLost, "Release of a lost lock returned")
		e.party().finds(l.Name(), "the next holder has not released the name")
		e.release(got)
	}),
	quick("min-hold", "options: MinHold keeps the name taken for so long after it was acquired, although it was released", func(e *Env) {
		a, b := e.client(), e.client()
		const least = 500 * time.Millisecond
		start := time.Now()
		l := e.acquire(a, e.name(), lockport.MinHold(least))
		got := time.Now()
		e.release(l)
		if took := time.Since(got); took > least/2 {
			e.failf("Release took %v: it must not wait for MinHold", took)
		}
		next := e.begin(b, l.Name())
		lock := next.granted(soon+least, "MinHold has passed")
		if took := time.Since(start); took < least {
			e.failf("another client got the name %v after it was acquired, where MinHold is %v", took, least)
		}
		e.release(lock)
	}),
	quick("min-hold-and-close", "options: Close waits for what MinHold keeps", func(e *Env) {
		a, b := e.client(), e.client()
		const least = 500 * time.Millisecond
		start := time.Now()
		l := e.acquire(a, e.name(), lockport.MinHold(least))
		e.release(l)
		e.check(a.Close(), "Close")
		if took := time.Since(start); took < least {
			e.failf("Close returned after %v, where MinHold is %v", took, least)
		}
		e.release(e.acquireWithin(b, l.Name(), soon, "Close has returned"))
	}),
	quick("do", "options: Do holds the name while the function runs, returns its error, and ErrLost if the lock was lost although it returned none", func(e *Env) {
		ctx := e.ctx
		c := e.client()
		name := e.name()
		work := errors.New("the work's own error")
		err := lockport.Do(ctx, c, name, func(context.Context, *lockport.Lock) error {
			e.party().finds(name, "the work runs")
			return work
		})
		if !errors.Is(err, work) || errors.Is(err, lockport.ErrLost) {
			e.failf("Do returned: %w", orNone(err))
		}
		err = lockport.Do(ctx, c, name, func(held context.Context, _ *lockport.Lock) error {
			select {
			case <-held.Done():
			case <-time.After(soon):
				return errors.New("the context did not end with the hold")
			}
			if cause := context.Cause(held); !errors.Is(cause, lockport.ErrLost) {
				return cause
			}
			return nil
		}, lockport.MaxHold(50*time.Millisecond))
		e.is(err, lockport.ErrLost, "the lock was lost while the function ran, and Do returned")
		p := e.party()
		p.release(p.takes(name, soon, "Do has returned"))
	}),
	quick("ttl-of-one-acquisition", "options: an acquisition can have a TTL of its own", func(e *Env) {
		if e.caps.FixedTTL > 0 {
			e.notRun("the session has one TTL")
		}
		c := e.client()
		l := e.acquire(c, e.name(), lockport.TTL(5*e.ttl))
		deadline, ok := l.Deadline()
		if left := time.Until(deadline); ok && (left < 2*e.ttl || left > roundUp(5*e.ttl, e.caps.TTLGrain)) {
			e.failf("with a TTL of %v the deadline is in %v", 5*e.ttl, left)
		}
		e.release(l)
	}),
	quick("deadline",
		"options: Deadline is before the server can grant the name to another, and there is none exactly where claims have no end of their own", func(e *Env) {
			l := e.acquire(e.client(), e.name())
			deadline, ok := l.Deadline()
			switch left := time.Until(deadline); {
			case e.caps.Ends == driver.EndsTTL && !ok:
				e.failf("claims end with their TTL, but there is no Deadline")
			case e.caps.Ends == driver.EndsProcess && ok:
				e.failf("claims end with their process, but there is a Deadline, in %v", left)
			case ok && (left <= 0 || left >= e.ttl):
				e.failf("the Deadline is in %v, where the TTL is %v", left, e.ttl)
			}
			e.release(l)
		}),
)

// ttlIfFree is a TTL option where claims can have one of their own.
func ttlIfFree(e *Env, ttl time.Duration) []lockport.AcquireOption {
	if e.caps.FixedTTL > 0 {
		return nil
	}
	return []lockport.AcquireOption{lockport.TTL(ttl)}
}
