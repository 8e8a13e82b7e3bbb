package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleLoss = "P3b removal: a holder whose lock the server ended is told in the stated time, and its release says ErrLost"

// lossCases are about P3b at the client.
var lossCases = group("loss",
	full("forgotten", ruleLoss+" (the server forgot it)", func(e *Env) {
		toldOfLoss(e, func(name string) { e.remove(name) })
	}).needing(NeedRemove),
	full("overwritten", ruleLoss+" (somebody else's value took its place)", func(e *Env) {
		l := e.acquire(e.client(), e.name())
		e.overwrite(l.Name())
		e.lostWithin(l, e.noticeTime(), "somebody else's value took the place of the lock")
		e.is(l.Release(e.ctx), lockport.ErrLost, "the release of a lost lock returned")
		other := e.party()
		for range 5 { // what the client undoes in the background must leave it alone
			other.finds(l.Name(), "somebody who is not a lockport client has the name")
			e.sleep(20 * time.Millisecond)
		}
	}).needing(NeedOverwrite),
	full("broken", ruleLoss+" (it was broken)", func(e *Env) {
		toldOfLoss(e, e.breaker())
	}),
	full("waiter-gets-it", "P7 liveness: who waits gets the name when the server forgot its holder", func(e *Env) {
		a, b := e.client(), e.client()
		l := e.acquire(a, e.name())
		next := e.begin(b, l.Name())
		next.notYet(50*time.Millisecond, "the name is held")
		e.remove(l.Name())
		// Nobody may have told the waiter: then it looks when the holder's claim would have ended.
		e.release(next.granted(e.takeover()+soon, "the server forgot the holder"))
		e.lostWithin(l, e.noticeTime(), "the server forgot the lock")
	}).needing(NeedRemove),
	full("forgotten-while-many-wait", ruleLossAmongMany+" (the server forgot it)", func(e *Env) {
		lostWhileManyWait(e, func(l *lockport.Lock, _ *beliefs) func() { e.remove(l.Name()); return nil })
	}).needing(NeedRemove),
	full("overwritten-while-many-wait", ruleLossAmongMany+" (somebody else's value took its place)", func(e *Env) {
		lostWhileManyWait(e, func(l *lockport.Lock, b *beliefs) func() {
			b.losses.Store(true)
			e.overwrite(l.Name())
			return func() { e.remove(l.Name()) }
		})
	}).needing(NeedOverwrite),
	full("broken-while-many-wait", ruleLossAmongMany+" (it was broken)", func(e *Env) {
		breaks := e.breaker()
		lostWhileManyWait(e, func(l *lockport.Lock, _ *beliefs) func() { breaks(l.Name()); return nil })
	}).alone(),
	full("forgotten-while-handed-on",
		"P2 fencing, P3b removal: a lock that the server forgets while goroutines of one process hand it to each other has one holder there at a time, and rising tokens", lostWhileHandedOn).needing(NeedRemove),
	full("some-of-many",
		"P1 exclusion, P3b removal: of many locks that are renewed together those that the server ended are lost, and the others stay for as long as they are held", someOfMany).needing(NeedOverwrite),
)

const ruleLossAmongMany = "P3b removal, P7 liveness: the loss of a lock for which many wait in the process is told; nobody is handed what is gone, and all get it anew"

// noticeTime is within what time a holder must have been told of a removal.
func (e *Env) noticeTime() time.Duration {
	if notice := e.caps.RemovalNotice; notice != nil {
		return notice(e.ttl) + endTime
	}
	return e.ttl + endTime
}

// toldOfLoss has the server end a lock by end, and checks what its holder learns.
func toldOfLoss(e *Env, end func(name string)) {
	observer := e.party()
	c, limit := e.client(), e.noticeTime()
	if notice, long := e.caps.RemovalNotice, e.longTTL(); e.caps.FixedTTL == 0 && notice != nil && notice(long)+endTime < long/4 {
		c, limit = e.patient(), notice(long)+endTime // so that no renewal comes before the notice
	}
	l := e.acquire(c, e.name())
	lost := l.Lost()
	ctx, cancel := l.Context(e.ctx)
	defer cancel()
	end(l.Name())
	e.lostWithin(l, limit, "the server ended the lock")
	e.closedWithin(lost, endTime)
	e.within(ctx.Done(), endTime, "the lock is lost, but its context has not ended %v later", endTime)
	if cause := context.Cause(ctx); !errors.Is(cause, lockport.ErrLost) {
		e.failf("the cause of the context's end is: %w", orNone(cause))
	}
	next := observer.takes(l.Name(), e.takeover(), "the server ended the lock")
	for range 2 {
		e.is(l.Release(e.ctx), lockport.ErrLost, "the release of a lost lock returned")
	}
	e.rises(token(l)/1024, next.Grant().Token)
	e.stillHolds(observer, l.Name(), next, "the holder whose lock was ended came to release")
}

// breaker returns what breaks the claim on a name, of the owner that Inspect gives.
func (e *Env) breaker() func(name string) {
	p := e.party()
	breaker, inspector := optional[driver.Breaker](p), optional[driver.Inspector](p)
	return func(name string) {
		ctx, cancel := e.timed()
		defer cancel()
		st, err := inspector.Inspect(ctx, name)
		e.check(err, "Inspect")
		e.check(breaker.Break(ctx, name, st.Owner), "Break")
	}
}
