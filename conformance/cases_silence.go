package conformance

import (
	"errors"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleSilence = "P3a silence: when nothing is heard from the server, the holder is told before the server can grant the name to another"

// silenceCases are about P3a: renewal, and its failure.
var silenceCases = group("silence",
	full("expiry", "P3a silence, P5 crash: a claim that is not renewed is granted again after its validity ended, and soon after its TTL", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		lease := a.claim(name)
		b.release(afterExpiry(e, lease, b, name))
	}),
	full("expiry-after-renewal", "P3a silence: a claim is not granted again before the validity that its last renewal returned has ended", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		lease := a.claim(name)
		if e.caps.Ends != driver.EndsTTL {
			e.notRun("claims end with their %v, not with a TTL", e.caps.Ends)
		}
		e.sleep(e.ttl / 2)
		until, err := a.renews(lease)
		e.check(err, "renewal")
		if !until.After(lease.Grant().Until) {
			e.failf("a renewal after half the TTL did not prolong the validity")
		}
		next := b.takes(name, e.takeover(), "a claim that is not renewed ends with its TTL")
		if early := time.Until(until); early > 0 {
			e.failf("the name was granted again %v before the validity that the renewal returned ended", early)
		}
		b.release(next)
	}),
	full("renewal", "P1 exclusion: a hold lasts as long as its holder wants, over many TTLs", func(e *Env) {
		other := e.party()
		l := e.acquire(e.client(), e.name())
		first, renewed := l.Deadline()
		for end := time.Now().Add(3 * e.ttl); time.Now().Before(end); {
			e.stays(l, other, "the holder has not released the name")
			e.sleep(e.ttl / 10)
		}
		if last, _ := l.Deadline(); renewed && !last.After(first) {
			e.failf("the Deadline has not moved in %v", 3*e.ttl)
		}
		e.release(l)
		other.free(l.Name(), "the name was released")
	}),
	full("frozen", ruleSilence+" (the server says nothing)", func(e *Env) { toldBeforeGrant(e, e.freeze, false) }).needing(NeedFreeze, NeedDirect),
	full("gone", ruleSilence+" (the server cannot be reached)", func(e *Env) { toldBeforeGrant(e, e.sever, true) }).needing(NeedSever, NeedDirect),
	full("slow", ruleSilence+" (every reply comes after the TTL)", func(e *Env) {
		toldBeforeGrant(e, func() { e.delay(e.ttl + e.ttl/4) }, false)
	}).needing(NeedDelay, NeedDirect),
	full("brief", "P3a silence: a hold survives a silence that ends well before its validity does", func(e *Env) {
		other := e.observerIfAny()
		l := e.acquire(e.client(), e.name())
		for range 4 {
			e.freeze()
			e.sleep(e.ttl / 4)
			e.restore()
			e.sleep(e.ttl / 3)
			e.check(l.Err(), "the server was silent for a quarter of the TTL, and the lock was lost")
		}
		e.stays(l, other, "the holder has not released the name")
		e.release(l)
	}).needing(NeedFreeze),
	full("cut", "P3a silence: a hold survives the loss of its connections, or, where it ends with them, the holder is told in the stated time", func(e *Env) {
		other := e.party()
		l := e.acquire(e.client(), e.name())
		for range 3 {
			e.cut()
			e.sleep(e.ttl / 2)
			if !l.Valid() && e.caps.Ends != driver.EndsTTL {
				return
			}
			e.check(l.Err(), "the connections were closed and can be opened again, and the lock was lost")
		}
		e.sleep(e.ttl)
		if l.Valid() {
			other.finds(l.Name(), "the holder was not told of any loss")
			e.release(l)
		} else if e.caps.Ends == driver.EndsTTL {
			e.failf("the connections were closed and can be opened again, and the lock was lost: %w", l.Err())
		}
	}).needing(NeedCut),
	full("renewal-reply-lost", "P3a silence: a hold survives the loss of the reply to a renewal", func(e *Env) {
		other := e.party()
		other.free(e.name(), "the name is new")
		l := e.acquire(e.client(), e.name())
		if _, ok := l.Deadline(); !ok {
			e.notRun("claims have no end of their own, so they are not renewed")
		}
		lost := e.dropReply(OpRenew)
		select {
		case <-lost:
		case <-time.After(e.ttl):
			e.notRun("the reply to a renewal was to be lost, but the fault found no such request")
		}
		e.sleep(e.ttl)
		if e.caps.Ends != driver.EndsTTL && !l.Valid() {
			return
		}
		e.stays(l, other, "the reply to one renewal was lost, the next ones come through")
		e.release(l)
	}).needing(NeedDropReply),
)

// observerIfAny is an observer, or where there is none an ordinary party.
func (e *Env) observerIfAny() *party {
	if e.cfg.Direct != "" {
		return e.observer()
	}
	return e.party()
}

// toldBeforeGrant takes a holder's server away, and has an observer take the name as soon as the server grants it. hangsUp: the fault is no silence,
// both sides see that the connection is closed.
func toldBeforeGrant(e *Env, fault func(), hangsUp bool) {
	observer := e.observer()
	l := e.acquire(e.client(), e.name())
	lost := l.Lost() // asked for before and after
	ctx, cancel := l.Context(e.ctx)
	defer cancel()
	deadline, ends := l.Deadline()
	// When the holder last believed, by asking it all the time, and when it was told.
	stop := make(chan struct{})
	belief := make(chan time.Time, 1)
	go func() {
		var last time.Time
		for {
			looked := time.Now() // before: whoever is not run between the two believed then, and perhaps no longer
			if !l.Valid() {
				break
			}
			last = looked
			select {
			case <-time.After(time.Millisecond):
			case <-stop:
				belief <- last
				return
			}
		}
		belief <- last
	}()
	var stopped bool
	halt := func() time.Time {
		if !stopped {
			stopped = true
			close(stop)
		}
		return <-belief
	}
	defer func() {
		if !stopped {
			halt()
		}
	}()

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
		if ends {
			e.failf("the holder cannot be heard, and %v later the server has not granted the name to another", 2*e.takeover())
		}
		// The server still sees the session: then nobody may have been told wrongly either.
		e.notRun("the server does not notice that this session's client is cut off, and keeps the lock for it")
	}
	stopRenewing := observer.keepAlive(next)
	if hangsUp && e.caps.Ends == driver.EndsSession && granted.Before(deadline) {
		ends = false // a server whose sessions are connections ended this one when it was closed, without waiting for the TTL
	}
	if !ends {
		// Both sides notice the end of the session, each in its own time: that is P3b.
		limit := e.ttl
		if e.caps.RemovalNotice != nil {
			limit = e.caps.RemovalNotice(e.ttl)
		}
		e.lostWithin(l, limit+endTime, "the server ended the session and granted the name to another")
	} else if valid := l.Valid(); valid || halt().After(granted) {
		e.failf("the server has granted the name to another, and the holder said Valid after that (and says so now: %t)", valid)
	}
	e.saysLost(l)
	e.lostWithin(l, endTime, "Valid is false")
	e.closedWithin(lost, endTime)
	e.within(ctx.Done(), endTime, "the lock is lost, but its context has not ended %v later", endTime)
	if ends && !errors.Is(l.Err(), lockport.ErrSilence) {
		e.failf("the reason of the loss is not ErrSilence: %w", l.Err())
	}
	start := time.Now()
	e.is(l.Release(e.ctx), lockport.ErrLost, "the release of a lost lock returned")
	if took := time.Since(start); took > 2*callTime {
		e.failf("the release of a lost lock took %v", took)
	}
	// What the holder had on its way arrives now.
	e.restore()
	third := e.observer()
	for end := time.Now().Add(e.ttl); time.Now().Before(end); e.sleep(e.ttl / 10) {
		third.finds(l.Name(), "P4 ownership: the earlier holder's late requests came in; the next holder keeps the name")
	}
	stopRenewing()
	observer.release(next)
}
