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

// optionsCases are about what New and Acquire can be given, and Do.
var optionsCases = group("options",
	quick("max-hold", "options: MaxHold ends a hold as lost, with ErrMaxHold, and the name is free", func(e *Env) {
		const most = 120 * time.Millisecond
		a, b, start := e.client(), e.client(), time.Now()
		l := e.acquire(a, e.name(), lockport.MaxHold(most))
		got := e.begin(b, l.Name()).granted(soon+most, "the hold lasted as long as MaxHold allows")
		took := time.Since(start)
		e.require(took >= most, "another client got the name after %v, where MaxHold is %v", took, most)
		e.saysLost(l)
		e.is(l.Err(), "Err is", lockport.ErrMaxHold)
		e.lateRelease(l)
		e.party().finds(l.Name(), "the next holder has not released the name")
		e.release(got)
	}),
	quick("min-hold", "options: MinHold keeps the name taken for so long after it was acquired, although it was released", func(e *Env) {
		a, b, start := e.client(), e.client(), time.Now()
		l := e.acquire(a, e.name(), lockport.MinHold(leastHold))
		got := time.Now()
		e.release(l)
		took := time.Since(got)
		e.require(took <= leastHold/2, "Release took %v: it must not wait for MinHold", took)
		next := e.begin(b, l.Name()).granted(soon+leastHold, "MinHold has passed")
		took = time.Since(start)
		e.require(took >= leastHold, "another client got the name %v after it was acquired, where MinHold is %v", took, leastHold)
		e.release(next)
	}),
	quick("min-hold-and-close", "options: Close waits for what MinHold keeps", func(e *Env) {
		a, b, start := e.client(), e.client(), time.Now()
		l := e.acquire(a, e.name(), lockport.MinHold(leastHold))
		e.release(l)
		e.check(a.Close(), "Close")
		took := time.Since(start)
		e.require(took >= leastHold, "Close returned after %v, where MinHold is %v", took, leastHold)
		e.release(e.acquireWithin(b, l.Name(), soon, "Close has returned"))
	}),
	quick("do", "options: Do holds the name while the function runs, returns its error, and ErrLost if the lock was lost although it returned none", func(e *Env) {
		c, p, name := e.client(), e.party(), e.name()
		work := errors.New("the work's own error")
		err := lockport.Do(e.ctx, c, name, func(context.Context, *lockport.Lock) error {
			p.finds(name, "the work runs")
			return work
		})
		e.require(errors.Is(err, work) && !errors.Is(err, lockport.ErrLost), "Do returned: %w", err)
		err = lockport.Do(e.ctx, c, name, func(held context.Context, _ *lockport.Lock) error {
			e.within(held.Done(), soon, "the context did not end with the hold")
			e.is(context.Cause(held), "the cause of the context's end is", lockport.ErrLost)
			return nil
		}, lockport.MaxHold(50*time.Millisecond))
		e.is(err, "the lock was lost while the function ran, and Do returned", lockport.ErrLost)
		p.frees(name, soon, "Do has returned")
	}),
	quick("ttl-of-one-acquisition", "options: an acquisition can have a TTL of its own", func(e *Env) {
		if e.caps.FixedTTL > 0 {
			e.notRun("the session has one TTL")
		}
		l := e.acquire(e.client(), e.name(), lockport.TTL(5*e.ttl))
		deadline, ok := l.Deadline()
		left := time.Until(deadline)
		e.require(!ok || left >= 2*e.ttl && left <= roundUp(5*e.ttl, e.caps.TTLGrain), "with a TTL of %v the deadline is in %v", 5*e.ttl, left)
		e.release(l)
	}),
	quick("deadline",
		"options: Deadline is before the server can grant the name to another, and there is none exactly where claims have no end of their own", func(e *Env) {
			l := e.acquire(e.client(), e.name())
			deadline, ok := l.Deadline()
			left := time.Until(deadline)
			e.require(ok || e.caps.Ends != driver.EndsTTL, "claims end with their TTL, but there is no Deadline")
			e.require(!ok || e.caps.Ends != driver.EndsProcess, "claims end with their process, but there is a Deadline, in %v", left)
			e.require(!ok || left > 0 && left < e.ttl, "the Deadline is in %v, where the TTL is %v", left, e.ttl)
			e.release(l)
		}),
)
