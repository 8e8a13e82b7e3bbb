package conformance

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleCrash = "P5 crash: a dead holder's lock is granted again within the stated time, with a greater token"

// crashCases test P5: other processes die or stop.
var crashCases = group("crash",
	full("holder", ruleCrash+" (a renewing holder is killed while another client waits)", func(e *Env) {
		p, name := e.process(), e.name()
		held := p.do(order{Op: opAcquire, Name: name})
		next := e.begin(e.client(), name)
		next.notYet(e.ttl*5/4, "another process holds the name and renews it")
		p.Kill()
		l := next.granted(e.takeover(), "the holder's process was killed")
		e.rises(held.Token, token(l))
		e.release(l)
	}, "processes"),
	full("claim", ruleCrash+" (a holder is killed at once, and nobody waits)", func(e *Env) {
		other, name, last := e.party(), e.name(), uint64(0)
		for range 2 {
			p := e.process()
			held := p.do(order{Op: opAcquire, Name: name}).Token / driver.TokensPerGrant
			e.rises(last, held)
			p.Kill()
			last = other.wantFreeIn(name, e.takeover(), "the holder's process was killed")
			e.rises(held, last)
		}
	}, "processes"),
	full("waiter", "P7 liveness: a killed waiter keeps the name from others no longer than the TTL", func(e *Env) {
		l, p := e.acquire(e.client(), e.name()), e.process()
		_, err := p.await(p.Send(order{Op: opAcquire, Name: l.Name()}), 300*time.Millisecond)
		e.is(err, "the name is held, so another process's Acquire must wait; it returned", context.DeadlineExceeded)
		next := e.begin(e.client(), l.Name())
		next.notYet(50*time.Millisecond, "the name is held")
		p.Kill()
		e.release(l)
		e.release(next.granted(e.takeover(), "the holder released the name, and the first waiter was killed"))
	}, "processes"),
	full("stopped-holder",
		"P3a silence: a holder that was stopped for longer than its TTL finds its lock lost at once, and its late release affects no other holder",
		func(e *Env) {
			p, name := e.process(), e.name()
			held := p.do(order{Op: opAcquire, Name: name})
			p.stop()
			next := e.begin(e.client(), name)
			if e.caps.Ends != driver.EndsTTL {
				// The server may keep the stopped holder's session. In any case only one process may hold.
				select {
				case <-next.over:
				case <-time.After(e.takeover()):
					a := p.resume()
					e.require(a.Valid, "the server kept a stopped process's lock, but the process says that it lost it: %s", a.Err)
					p.do(order{Op: opRelease})
					e.release(next.granted(soon, "the resumed holder released the name"))
					return
				}
			}
			l := next.granted(e.takeover(), "the holder's process is stopped")
			e.rises(held.Token, token(l))
			a := p.resume()
			e.require(!a.Valid, "the holder was stopped and the name granted to another client, yet its first Valid said true")
			e.require(a.Lost, "the holder was stopped and the name granted to another client, yet Err returned: %s", a.Err)
			late, err := p.await(p.Send(order{Op: opRelease, Wait: callTime}), 3*callTime)
			e.check(err, "the process that was stopped")
			e.require(late.Lost, "the stopped holder's late release was not ErrLost but: %q", late.Err)
			other := e.party()
			e.during(e.ttl, func() {
				e.stillHeld(l, other, "P4 ownership: the stopped holder released late, but the next holder keeps the name")
			})
			e.release(l)
		}, "processes"),
)
