package conformance

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleSilence = "P3a silence: when nothing is heard from the server, the holder is told before the server can grant the name to another"

// silenceCases are about P3a: renewal, and its failure.
var silenceCases = group("silence",
	full("expiry", "P3a silence, P2 fencing: a claim that is not renewed is granted again after its validity ended, soon after its TTL, with a greater token", func(e *Env) {
		_, b, name, lease := e.held()
		b.release(b.afterExpiry(lease, lease.Grant().Until, name))
	}),
	full("expiry-after-renewal", "P3a silence: a claim is not granted again before the validity that its last renewal returned has ended", func(e *Env) {
		e.needsTTL()
		a, b, name, lease := e.held()
		e.sleep(e.ttl / 2)
		until, err := a.renews(lease)
		e.check(err, "renewal")
		e.require(until.After(lease.Grant().Until), "a renewal after half the TTL did not prolong the validity")
		b.release(b.afterExpiry(lease, until, name))
	}),
	full("renewal", "P1 exclusion: a hold lasts as long as its holder wants, over many TTLs", func(e *Env) {
		other := e.party()
		endures(e, "the holder has not released the name", false, func(l *lockport.Lock) {
			first, renewed := l.Deadline()
			e.during(3*e.ttl, e.ttl/10, func() {
				if lease, err := other.try(other.request(l.Name())); l.Err() == nil {
					e.refused(lease, err, "the holder has not released the name")
				}
			})
			last, _ := l.Deadline()
			e.require(l.Err() != nil || !renewed || last.After(first), "the Deadline has not moved in %v", 3*e.ttl)
		})
	}),
	full("frozen", ruleSilence+" (the server says nothing)", func(e *Env) { toldBeforeGrant(e, e.freeze, false) }, "Freeze", "Direct"),
	full("gone", ruleSilence+" (the server cannot be reached)", func(e *Env) { toldBeforeGrant(e, e.sever, true) }, "Sever", "Direct"),
	full("slow", ruleSilence+" (every reply comes after the TTL)",
		func(e *Env) { toldBeforeGrant(e, func() { e.delay(e.ttl + e.ttl/4) }, false) }, "Delay", "Direct"),
	full("brief", "P3a silence: a hold survives a silence that ends well before its validity does", func(e *Env) {
		endures(e, "the server was silent for a quarter of the TTL now and then", false, func(l *lockport.Lock) {
			for range 4 {
				e.freeze()
				e.sleep(e.ttl / 4)
				e.restore()
				e.sleep(e.ttl / 3)
			}
		})
	}, "Freeze"),
	full("cut", "P3a silence: a hold survives the loss of its connections, or, where it ends with them, the holder is told in the stated time", func(e *Env) {
		endures(e, "the connections were closed and could be opened again", e.caps.Ends != driver.EndsTTL, func(l *lockport.Lock) {
			for range 3 {
				e.cut()
				e.sleep(e.ttl / 2)
			}
			e.sleep(e.ttl)
		})
	}, "Cut"),
	full("renewal-reply-lost", "P3a silence: a hold survives the loss of the reply to a renewal", func(e *Env) {
		endures(e, "the reply to one renewal was lost, the next ones came through", e.caps.Ends != driver.EndsTTL, func(l *lockport.Lock) {
			if _, ok := l.Deadline(); !ok {
				e.notRun("claims have no end of their own, so they are not renewed")
			}
			e.replyLost(OpRenew, func() {}) // the client's next one
			e.sleep(e.ttl)
		})
	}, "DropReply"),
)

// endures has a lock held while its client's network may be harmed, each time with enough of the TTL left to renew it. mayEnd says that it may be lost. Where it
// may not, is lost, and the machine has stalled, there was not enough left, and nothing was tried.
func endures(e *Env, why string, mayEnd bool, harm func(*lockport.Lock)) {
	other, look := e.open(cmp.Or(e.cfg.Direct, e.cfg.Target)).connected(), func() {}
	e.unlessStalled(func() (ran bool) {
		l := e.acquire(e.client(), e.name())
		if e.cfg.Direct != "" { // the server may be what stalls
			look = func() {
				if lease, err := other.try(other.request(l.Name())); err == nil && !mayEnd && l.Err() == nil {
					e.fail(fmt.Errorf("%s, yet another claim was granted (token %d)", why, lease.Grant().Token))
				}
			}
		}
		stalled := e.stalls(look)
		harm(l)
		switch late := stalled(); {
		case l.Err() == nil:
			e.stays(l, other, why)
			e.release(l)
		case mayEnd:
		case late > e.ttl/8:
			return false
		default:
			e.failf("%s, and the lock was lost: %w", why, l.Err())
		}
		return true
	})
}

// toldBeforeGrant takes a holder's server away, and has an observer take the name as soon as the server grants it.
// hangsUp says that both sides see the connection close.
func toldBeforeGrant(e *Env, fault func(), hangsUp bool) {
	observer, l := e.observer(), e.acquire(e.client(), e.name())
	watch := e.watch(l)
	deadline, ends := l.Deadline()
	believed := lastBelief(e, l)
	fault()
	var next driver.Lease
	var granted time.Time
	req := observer.request(l.Name())
	got := poll(e.ctx, 2*e.takeover(), func() bool {
		lease, err := observer.try(req)
		next, granted = lease, time.Now() // after the request, which may have taken its time: when the server granted it is earlier
		return err == nil
	})
	if !got {
		e.require(!ends, "the holder cannot be heard, and %v later the server has not granted the name to another", 2*e.takeover())
		// The server still sees the session: then nobody may have been told wrongly either.
		e.notRun("the server does not notice that this session's client is cut off, and keeps the lock for it")
	}
	stopRenewing := observer.keepAlive(next)
	if hangsUp && e.caps.Ends == driver.EndsSession && granted.Before(deadline) {
		ends = false // a server whose sessions are connections ended this one when it was closed, without waiting for the TTL
	}
	limit := endTime
	if ends || !hangsUp { // nothing tells the holder, so that it must know by itself, whether it states a validity or not
		valid := l.Valid()
		e.require(!valid && !believed().After(granted),
			"the server has granted the name to another, and the holder said Valid after that (and says so now: %t)", valid)
	} else {
		limit = e.noticeTime(l) // both sides notice the end of the session, each in its own time: that is P3b
	}
	if ends {
		e.is(l.Err(), "the reason of the loss is not ErrSilence", lockport.ErrSilence)
	}
	watch.lostWithin(limit, "the server ended the session, or heard nothing, and granted the name to another")
	start := time.Now()
	e.lateRelease(l)
	took := time.Since(start)
	e.require(took <= 2*callTime, "the release of a lost lock took %v", took)
	// What the holder had on its way arrives now.
	e.restore()
	third := e.observer()
	e.during(e.ttl, e.ttl/10, func() {
		third.finds(l.Name(), "P4 ownership: the earlier holder's late requests came in; the next holder keeps the name")
	})
	stopRenewing()
	observer.release(next)
}

// lastBelief asks a lock all the time whether it is held, and returns what ends that and says when it last was.
func lastBelief(e *Env, l *lockport.Lock) func() time.Time {
	c := begin(e, "Valid", func(ctx context.Context) (last time.Time, _ error) {
		for ctx.Err() == nil {
			looked := time.Now() // before: whoever is not run between the two believed then, and perhaps no longer
			if !l.Valid() {
				return last, nil
			}
			last = looked
			<-time.After(time.Millisecond)
		}
		return last, nil
	})
	return func() time.Time { c.cancel(); <-c.over; return c.result }
}
