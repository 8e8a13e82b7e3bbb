package conformance

import (
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleCrash = "P5 crash: the lock of a holder that died is granted again in the stated time, with a greater token"

// crashCases are about P5: other processes die, or stop.
var crashCases = group("crash",
	full("holder", ruleCrash+" (a holder that renews, killed; somebody waits)", func(e *Env) {
		p, name := e.process(), e.name()
		held := p.do(order{Op: opAcquire, Name: name})
		next := e.begin(e.client(), name)
		next.notYet(e.ttl*5/4, "another process holds the name, and renews it")
		p.Kill()
		l := next.granted(e.takeover(), "the holder's process was killed")
		e.rises(held.Token, token(l))
		e.release(l)
	}, "processes"),
	full("claim", ruleCrash+" (a claim, killed at once; nobody waits yet)", func(e *Env) {
		other, name, last := e.party(), e.name(), uint64(0)
		for range 2 {
			p := e.process()
			held := p.do(order{Op: opAcquire, Name: name}).Token / driver.TokensPerGrant
			e.rises(last, held)
			p.Kill()
			last = other.frees(name, e.takeover(), "the holder's process was killed")
			e.rises(held, last)
		}
	}, "processes"),
	full("waiter", "P7 liveness: a waiting process that was killed keeps the name from the others no longer than the TTL", func(e *Env) {
		l, p := e.acquire(e.client(), e.name()), e.process()
		p.Send(order{Op: opAcquire, Name: l.Name()})
		e.sleep(300 * time.Millisecond) // it waits by then
		next := e.begin(e.client(), l.Name())
		next.notYet(50*time.Millisecond, "the name is held")
		p.Kill()
		e.release(l)
		e.release(next.granted(e.takeover(), "the holder has released the name, and who waited before was killed"))
	}, "processes"),
	full("stopped-holder",
		"P3a silence: a holder that was stopped for longer than its TTL finds its lock lost at the first look, and its late release harms nobody",
		stoppedHolder, "processes"),
)

func stoppedHolder(e *Env) {
	p, name := e.process(), e.name()
	held := p.do(order{Op: opAcquire, Name: name})
	p.stop()
	next := e.begin(e.client(), name)
	if e.caps.Ends != driver.EndsTTL {
		// Whether the server notices is its affair; what must hold is that only one believes.
		select {
		case <-next.over:
		case <-time.After(e.takeover()):
			a := p.resume(name)
			e.require(a.Valid, "the server kept the lock of a process that was stopped, which says that it lost it: %s", a.Err)
			p.do(order{Op: opRelease, Name: name})
			e.release(next.granted(soon, "the holder, which went on, has released the name"))
			return
		}
	}
	l := next.granted(e.takeover(), "the holder's process is stopped")
	e.rises(held.Token, token(l))
	a := p.resume(name)
	e.require(!a.Valid, "its process was stopped, the name is held by another, and its first Valid said true")
	e.require(a.Lost, "its process was stopped, the name is held by another, and Err said: %s", a.Err)
	late, err := p.await(p.Send(order{Op: opRelease, Name: name, Wait: callTime}), 3*callTime)
	e.check(err, "the process that was stopped")
	e.require(late.Lost, "its late release was not ErrLost but: %q", late.Err)
	other := e.party()
	e.during(e.ttl, e.ttl/10, func() {
		e.stays(l, other, "P4 ownership: the stopped holder came to release; the next holder keeps the name")
	})
	e.release(l)
}
