package conformance

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleSilence = "P3a silence: when the server is silent, the holder is told before the server can grant the name to another client"

// silenceCases test P3a: renewal, and its failure.
var silenceCases = group("silence",
	full("expiry", "P3a silence, P2 fencing: a claim that is not renewed is granted again after its validity, soon after its TTL, with a greater token", func(e *Env) {
		_, b, name, lease := e.held()
		b.release(b.afterExpiry(lease, lease.Grant().Until, name))
	}),
	full("expiry-after-renewal", "P3a silence: a claim is not granted again before the validity of its last renewal has ended", func(e *Env) {
		e.needsTTL()
		a, b, name, lease := e.held()
		e.sleep(e.ttl / 2)
		until, err := a.renew(lease)
		e.check(err, "the renewal of a held claim")
		e.require(until.After(lease.Grant().Until), "a renewal after half the TTL did not extend the validity")
		b.release(b.afterExpiry(lease, until, name))
	}),
	full("renewal", "P1 exclusion: a hold lasts until its holder releases it, over several TTLs", func(e *Env) {
		other := e.party()
		survives(e, "the holder has not released the name", false, func(l *lockport.Lock) {
			first, renewed := l.Deadline()
			e.during(3*e.ttl, func() {
				if lease, err := other.try(other.request(l.Name())); l.Err() == nil {
					e.refused(lease, err, "the holder has not released the name")
				}
			})
			last, _ := l.Deadline()
			e.require(l.Err() != nil || !renewed || last.After(first), "the lock is renewed, but its Deadline has not moved in %v", 3*e.ttl)
		})
	}),
	full("frozen", ruleSilence+" (the server is frozen)", func(e *Env) { toldBeforeGrant(e, e.freeze, false) }, "Freeze", "Direct"),
	full("gone", ruleSilence+" (the server is unreachable)", func(e *Env) { toldBeforeGrant(e, e.sever, true) }, "Sever", "Direct"),
	full("slow", ruleSilence+" (every reply takes longer than the TTL)",
		func(e *Env) { toldBeforeGrant(e, func() { e.delay(e.ttl + e.ttl/4) }, false) }, "Delay", "Direct"),
	full("brief", "P3a silence: a hold survives a silence that ends well before its validity", func(e *Env) {
		survives(e, "the server was silent four times, each for a quarter of the TTL", false, func(l *lockport.Lock) {
			for range 4 {
				e.freeze()
				e.sleep(e.ttl / 4)
				e.restore()
				e.sleep(e.ttl / 3)
			}
		})
	}, "Freeze"),
	full("cut", "P3a silence: a hold survives the loss of its connections; if it ends with them, its holder is told in the stated time", func(e *Env) {
		survives(e, "the connections were closed, and new ones worked", e.caps.Ends != driver.EndsTTL, func(l *lockport.Lock) {
			for range 3 {
				e.cut()
				e.sleep(e.ttl / 2)
			}
			e.sleep(e.ttl)
		})
	}, "Cut"),
	full("renewal-reply-lost", "P3a silence: a hold survives the loss of the reply to a renewal", func(e *Env) {
		survives(e, "the reply to one renewal was lost, and the next ones arrived", e.caps.Ends != driver.EndsTTL, func(l *lockport.Lock) {
			_, renewed := l.Deadline()
			e.applies(renewed, "claims do not expire, so they are not renewed")
			e.replyLost(OpRenew, func() {}) // the client's next one
			e.sleep(e.ttl)
		})
	}, "DropReply"),
)

// survives holds a lock while harm disturbs its client's network, each time leaving enough of the TTL to renew. mayEnd says that
// the lock may be lost: then its holder must be told in the stated time. If it is lost otherwise after the machine stalled, too little
// was left to renew, and nothing was tested.
func survives(e *Env, why string, mayEnd bool, harm func(*lockport.Lock)) {
	other, look := e.open(cmp.Or(e.cfg.Direct, e.cfg.Target)).connected(), func() {}
	l, notice := e.acquire(e.client(), e.name()), time.Duration(0)
	if mayEnd {
		notice = e.noticeTime(l)
	}
	if e.cfg.Direct != "" { // the server may stall too
		look = func() {
			lease, err := other.try(other.request(l.Name()))
			if err == nil && !poll(e.ctx, notice, func() bool { return l.Err() != nil }) {
				e.fail(fmt.Errorf("%s, yet another claim was granted (token %d), and the holder was not told within %v", why, lease.Grant().Token, notice))
			}
		}
	}
	stalled := stalls(look)
	defer stalled() // harm may end the case
	harm(l)
	switch late := stalled(); {
	case l.Err() == nil:
		e.stillHeld(l, other, why)
		e.release(l)
	case mayEnd:
	case late > e.ttl/8:
		e.stalled()
	default:
		e.failf("%s, and the lock was lost: %w", why, l.Err())
	}
}

// toldBeforeGrant cuts a holder off from its server by fault, and has an observer claim the name as soon as the server grants it.
// hangsUp says that both sides see the connection close.
func toldBeforeGrant(e *Env, fault func(), hangsUp bool) {
	observer, l := e.observer(), e.acquire(e.client(), e.name())
	lostWithin := e.watch(l)
	deadline, ends := l.Deadline()
	believed := lastBelief(e, l)
	fault()
	var next driver.Lease
	var granted time.Time
	req := observer.request(l.Name())
	got := poll(e.ctx, 2*e.takeover(), func() bool {
		lease, err := observer.tryAgain(&req)
		next, granted = lease, time.Now() // an upper bound: the server granted it earlier
		return err == nil
	})
	if !got {
		e.require(!ends, "the holder has been silent for %v, but the server has not granted the name to another client, "+orNoFault, 2*e.takeover())
		// The server keeps the session of the holder, so there is no other holder.
		e.notRun("the server keeps the session and lock of a client that is cut off")
	}
	release := observer.keep(next)
	if hangsUp && e.caps.Ends == driver.EndsSession && granted.Before(deadline) {
		ends = false // sessions are connections here: the server ended this one when it closed, before the TTL
	}
	limit := endTime
	if ends || !hangsUp { // nothing tells the holder, so its clock must, even if it states no validity
		last := believed()
		if l.Valid() {
			last = time.Now()
		}
		e.require(!last.After(granted), "the server has granted the name to another client, but the holder said Valid %v later", last.Sub(granted))
	} else {
		limit = e.noticeTime(l) // each side notices the end of the session in its own time: this is P3b
	}
	if ends {
		e.is(l.Err(), "the reason of the loss is not ErrSilence but", lockport.ErrSilence)
	}
	lostWithin(limit, "the server granted the name to another client")
	released := e.inTime("Release of a lost lock", callTime, 2*callTime, l.Release)
	e.is(released, "Release of a lost lock must return ErrLost; it returned", lockport.ErrLost)
	// The holder's delayed requests arrive now.
	e.restore()
	third := e.observer()
	e.during(e.ttl, func() {
		third.wantHeld(l.Name(), "P4 ownership: the earlier holder's late requests arrived, but the next holder keeps the name")
	})
	release()
}

// lastBelief calls Valid repeatedly. The returned function stops that and returns when Valid was last true.
func lastBelief(e *Env, l *lockport.Lock) func() time.Time {
	c := begin(e, "Valid", func(ctx context.Context) (last time.Time, _ error) {
		for ctx.Err() == nil {
			looked := time.Now() // before the call: the lock may end while this goroutine is not running
			if !l.Valid() {
				return last, nil
			}
			last = looked
			<-time.After(time.Millisecond)
		}
		return last, nil
	})
	return func() time.Time { c.stop(); return c.result }
}

const ruleCrash = "P5 crash: a dead holder's lock is granted again within the stated time, with a greater token"

// crashCases test P5: other processes die or stop.
var crashCases = group("crash",
	full("holder", ruleCrash+" (a renewing holder is killed while another client waits)", func(e *Env) {
		p, name := e.process(), e.name()
		held := p.do(order{Op: opAcquire, Name: name})
		next := e.acquiring(e.client(), name)
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
			e.eventually(e.takeover(), func() bool { return !other.shown(name).Held }, "the holder's process was killed, so Inspect shows no holder")
			last = other.wantFreeIn(name, e.takeover(), "the holder's process was killed")
			e.rises(held, last)
		}
	}, "processes"),
	full("waiter", "P7 liveness: a killed waiter keeps the name from others for no longer than the TTL", func(e *Env) {
		l, p := e.acquire(e.client(), e.name()), e.process()
		_, err := p.await(p.Send(order{Op: opAcquire, Name: l.Name()}), 300*time.Millisecond)
		e.is(err, "the name is held, so another process's Acquire must wait; it returned", context.DeadlineExceeded)
		next := e.acquiring(e.client(), l.Name())
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
			next := e.acquiring(e.client(), name)
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
			late, err := p.await(p.Send(order{Op: opRelease}), 3*callTime)
			e.check(err, "the process that was stopped")
			e.require(late.Lost, "the stopped holder's late release was not ErrLost but: %q", late.Err)
			other := e.party()
			e.during(e.ttl, func() {
				e.stillHeld(l, other, "P4 ownership: the stopped holder released late, but the next holder keeps the name")
			})
			e.release(l)
		}, "processes"),
)
