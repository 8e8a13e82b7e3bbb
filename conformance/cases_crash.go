package conformance

import (
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleCrash = "P5 crash: the lock of a holder that died is granted again in the stated time, with a greater token"

// crashCases are about P5: other processes die, or stop.
var crashCases = group("crash",
	full("holder", ruleCrash+" (a holder that renews, killed; somebody waits)", func(e *Env) {
		p := e.process()
		c := e.client()
		name := e.name()
		held := p.do(order{Op: opAcquire, Name: name, Wait: callTime}, 2*callTime)
		next := e.begin(c, name)
		next.notYet(e.ttl*5/4, "another process holds the name, and renews it")
		p.Kill()
		l := next.granted(e.takeover(), "the holder's process was killed")
		e.rises(held.Token, token(l))
		e.release(l)
	}).needing(NeedProcesses),
	full("claim", ruleCrash+" (a claim, killed at once; nobody waits yet)", func(e *Env) {
		name := e.name()
		other := e.party()
		last := uint64(0)
		for range 2 {
			p := e.process()
			held := p.do(order{Op: opClaim, Name: name, Wait: callTime}, 2*callTime)
			e.rises(last, held.Token)
			p.Kill()
			next := other.takes(name, e.takeover(), "the holder's process was killed")
			e.rises(held.Token, next.Grant().Token)
			last = next.Grant().Token
			other.release(next)
		}
	}).needing(NeedProcesses),
	full("waiter", "P7 liveness: a waiting process that was killed keeps the name from the others no longer than the TTL", func(e *Env) {
		a, b := e.client(), e.client()
		l := e.acquire(a, e.name())
		p := e.process()
		p.begin(order{Op: opAcquire, Name: l.Name()})
		e.sleep(300 * time.Millisecond) // it waits by then
		next := e.begin(b, l.Name())
		next.notYet(50*time.Millisecond, "the name is held")
		p.Kill()
		e.release(l)
		e.release(next.granted(e.takeover(), "the holder has released the name, and who waited before was killed"))
	}).needing(NeedProcesses),
	full("stopped-holder",
		"P3a silence: a holder that was stopped for longer than its TTL finds its lock lost at the first look, and its late release harms nobody", func(e *Env) {
			p := e.process()
			c := e.client()
			name := e.name()
			held := p.do(order{Op: opAcquire, Name: name, Wait: callTime}, 2*callTime)
			p.stop()
			next := e.begin(c, name)
			ends := e.caps.Ends == driver.EndsTTL
			if !ends {
				// Whether the server notices is its affair; what must hold is that only one believes.
				select {
				case <-next.over:
				case <-time.After(e.takeover()):
					valid := p.begin(order{Op: opValid, Hold: held.Hold})
					p.resume()
					a, err := p.await(valid, callTime)
					e.check(err, "the process that was stopped")
					if !a.Valid {
						e.failf("the server kept the lock of a process that was stopped, which says that it lost it: %s", a.Err)
					}
					p.do(order{Op: opRelease, Hold: held.Hold}, 2*callTime)
					e.release(next.granted(soon, "the holder, which went on, has released the name"))
					return
				}
			}
			l := next.granted(e.takeover(), "the holder's process is stopped")
			e.rises(held.Token, token(l))
			valid := p.begin(order{Op: opValid, Hold: held.Hold})
			p.resume()
			a, err := p.await(valid, callTime)
			e.check(err, "the process that was stopped")
			if a.Valid {
				e.failf("its process was stopped, the name is held by another, and its first Valid said true")
			}
			if !a.Lost {
				e.failf("its process was stopped, the name is held by another, and Err said: %s", a.Err)
			}
			late, err := p.await(p.begin(order{Op: opRelease, Hold: held.Hold, Wait: callTime}), 3*callTime)
			e.check(err, "the process that was stopped")
			if !late.Lost {
				e.failf("its late release was not ErrLost but: %q", late.Err)
			}
			other := e.party()
			for end := time.Now().Add(e.ttl); time.Now().Before(end); e.sleep(e.ttl / 10) {
				e.stays(l, other, "P4 ownership: the stopped holder came to release; the next holder keeps the name")
			}
			e.release(l)
		}).needing(NeedProcesses),
)
