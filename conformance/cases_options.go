package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// leastHold is the MinHold of the cases.
const leastHold = 500 * time.Millisecond

// optionsCases test options of New and Acquire, and Do.
var optionsCases = group("options",
	quick("max-hold", "options: MaxHold ends a hold as lost, with ErrMaxHold, and frees its name", func(e *Env) {
		const most = 120 * time.Millisecond
		a, b, start := e.client(), e.client(), time.Now()
		l := e.acquire(a, e.name(), lockport.MaxHold(most))
		got := e.begin(b, l.Name()).granted(soon+most, "MaxHold has passed")
		took := time.Since(start)
		e.require(took >= most, "another client got the name after %v, but MaxHold is %v", took, most)
		e.wantLost(l)
		e.is(l.Err(), "Err must be ErrMaxHold; it is", lockport.ErrMaxHold)
		e.lateRelease(l)
		e.party().wantHeld(l.Name(), "the next holder has not released the name")
		e.release(got)
	}),
	quick("min-hold", "options: MinHold keeps the name taken that long after it was acquired, even if it is released earlier", func(e *Env) {
		a, b, start := e.client(), e.client(), time.Now()
		l := e.acquire(a, e.name(), lockport.MinHold(leastHold))
		got := time.Now()
		e.release(l)
		took := time.Since(got)
		e.require(took <= leastHold/2, "Release took %v; it must not wait for MinHold", took)
		next := e.begin(b, l.Name()).granted(soon+leastHold, "MinHold has passed")
		took = time.Since(start)
		e.require(took >= leastHold, "another client got the name %v after it was acquired, but MinHold is %v", took, leastHold)
		e.release(next)
	}),
	quick("min-hold-and-close", "options: Close waits until MinHold has passed", func(e *Env) {
		a, b, start := e.client(), e.client(), time.Now()
		l := e.acquire(a, e.name(), lockport.MinHold(leastHold))
		e.release(l)
		e.check(a.Close(), "Close")
		took := time.Since(start)
		e.require(took >= leastHold, "Close returned after %v, but MinHold is %v", took, leastHold)
		e.release(e.acquireWithin(b, l.Name(), soon, "Close has returned"))
	}),
	quick("do", "options: Do holds the name while the function runs, and returns its error, or ErrLost if the lock was lost", func(e *Env) {
		c, p, name := e.client(), e.party(), e.name()
		work := errors.New("the function's error")
		err := lockport.Do(e.ctx, c, name, func(context.Context, *lockport.Lock) error {
			p.wantHeld(name, "Do holds the name while the function runs")
			return work
		})
		e.require(errors.Is(err, work) && !errors.Is(err, lockport.ErrLost), "Do must return the function's error and not ErrLost; it returned: %w", err)
		err = lockport.Do(e.ctx, c, name, func(held context.Context, _ *lockport.Lock) error {
			e.within(held.Done(), soon, "the hold has ended, but its context has not")
			e.is(context.Cause(held), "the cause of the context's end must be ErrLost; it is", lockport.ErrLost)
			return nil
		}, lockport.MaxHold(50*time.Millisecond))
		e.is(err, "the lock was lost while the function ran, so Do must return ErrLost; it returned", lockport.ErrLost)
		p.wantFreeIn(name, soon, "Do has returned")
	}),
	quick("ttl-of-one-acquisition", "options: an acquisition can have its own TTL", func(e *Env) {
		if e.caps.FixedTTL > 0 {
			e.notRun("the TTL is fixed")
		}
		l := e.acquire(e.client(), e.name(), lockport.TTL(5*e.ttl))
		deadline, ok := l.Deadline()
		left := time.Until(deadline)
		e.require(!ok || left >= 2*e.ttl && left <= roundUp(5*e.ttl, e.caps.TTLGrain), "the TTL is %v, but the Deadline is in %v", 5*e.ttl, left)
		e.release(l)
	}),
	quick("deadline",
		"options: Deadline precedes any other grant of the name, and there is none exactly if claims do not expire", func(e *Env) {
			l := e.acquire(e.client(), e.name())
			deadline, ok := l.Deadline()
			left := time.Until(deadline)
			e.require(ok || e.caps.Ends != driver.EndsTTL, "claims end with their TTL, but there is no Deadline")
			e.require(!ok || e.caps.Ends != driver.EndsProcess, "claims end with their process, but there is a Deadline, in %v", left)
			e.require(!ok || left > 0 && left < e.ttl, "the Deadline is in %v, but the TTL is %v", left, e.ttl)
			e.release(l)
		}),
)
