package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleLoss = "P3b removal: a holder whose lock the server ended is told in the stated time, and its release says ErrLost"

const ruleLossAmongMany = "P3b removal, P7 liveness: the loss of a lock for which many wait in the process is told; nobody is handed what is gone, and all get it anew"

// lossCases are about P3b at the client.
var lossCases = group("loss",
	full("forgotten", ruleLoss+" (the server forgot it)", func(e *Env) { toldOfLoss(e, e.remove) }, "Remove"),
	full("overwritten", ruleLoss+" (somebody else's value took its place)", func(e *Env) {
		l := e.acquire(e.client(), e.name())
		e.overwrite(l.Name())
		e.lostWithin(l, e.noticeTime(l), "somebody else's value took the place of the lock")
		e.lateRelease(l)
		other := e.party()
		for range 5 { // what the client undoes in the background must leave it alone
			other.finds(l.Name(), "somebody who is not a lockport client has the name")
			e.sleep(20 * time.Millisecond)
		}
	}, "Overwrite"),
	full("broken", ruleLoss+" (it was broken)", func(e *Env) { toldOfLoss(e, e.breaks()) }),
	full("waiter-gets-it", "P7 liveness: who waits gets the name when the server forgot its holder", func(e *Env) {
		l := e.acquire(e.client(), e.name())
		next := e.begin(e.client(), l.Name())
		next.notYet(50*time.Millisecond, "the name is held")
		e.remove(l.Name())
		// Nobody may have told the waiter: then it looks when the holder's claim would have ended.
		e.release(next.granted(e.takeover()+soon, "the server forgot the holder"))
		e.lostWithin(l, e.noticeTime(l), "the server forgot the lock")
	}, "Remove"),
	full("forgotten-while-many-wait", ruleLossAmongMany+" (the server forgot it)",
		func(e *Env) { lostWhileManyWait(e, e.remove, nil) }, "Remove"),
	full("overwritten-while-many-wait", ruleLossAmongMany+" (somebody else's value took its place)",
		func(e *Env) { lostWhileManyWait(e, e.overwrite, e.remove) }, "Overwrite"),
	full("broken-while-many-wait", ruleLossAmongMany+" (it was broken)",
		func(e *Env) { lostWhileManyWait(e, e.breaks(), nil) }).alone(),
	full("forgotten-while-handed-on",
		"P2 fencing, P3b removal: a lock that the server forgets while goroutines of one process hand it to each other has one holder there at a time, and rising tokens",
		lostWhileHandedOn, "Remove"),
	full("some-of-many",
		"P1 exclusion, P3b removal: of many locks that are renewed together those that the server ended are lost, and the others stay for as long as they are held",
		someOfMany, "Overwrite"),
)

// breaks returns what breaks the claim on a name, of the owner that Inspect gives.
func (e *Env) breaks() func(name string) {
	p := e.party()
	breaks, inspect := breaker(p), inspector(p)
	return func(name string) { e.check(breaks(name, inspect(name).Owner), "Break") }
}

// toldOfLoss has the server end a lock by end, and checks what its holder learns.
func toldOfLoss(e *Env, end func(name string)) {
	observer := e.party()
	c, limit := e.client(), time.Duration(0)
	if notice, long := e.caps.RemovalNotice, e.longTTL(); e.caps.FixedTTL == 0 && notice != nil && notice(long)+endTime < long/4 {
		c, limit = e.patient(), notice(long)+endTime // so that no renewal comes before the notice
	}
	l := e.acquire(c, e.name())
	limit = cmp.Or(limit, e.noticeTime(l))
	w := e.watch(l)
	end(l.Name())
	w.lostWithin(limit, "the server ended the lock")
	next := observer.takes(l.Name(), e.takeover(), "the server ended the lock")
	e.lateRelease(l)
	e.lateRelease(l)
	e.rises(token(l)/driver.TokensPerGrant, next.Grant().Token)
	observer.stillHolds(l.Name(), next, "the holder whose lock was ended came to release")
}

// lostWhileManyWait has end end a lock for which hundreds of goroutines of the holder's client wait. If end gives the name to
// somebody else, free frees it again. Some goroutines may then have had the lock and lost it.
func lostWhileManyWait(e *Env, end, free func(name string)) {
	const waiters = 300
	c, other := e.client(), e.party()
	dead := e.acquire(c, e.name())
	name, watch, inside := dead.Name(), e.watch(dead), newHolders()
	inside.losses.Store(free != nil)
	_, err := inside.enter(0, dead)
	e.check(err, "before the loss")
	var all []*call[struct{}]
	for range waiters {
		all = append(all, begin(e, "Acquire", func(ctx context.Context) (none struct{}, _ error) {
			l, err := c.Acquire(ctx, name)
			switch {
			case err != nil:
				return none, err
			case l.Owner() == dead.Owner():
				return none, errors.New("who waited in the process was handed the claim that the server had ended")
			}
			return none, inside.hold(e.ctx, 0, l, 0)
		}))
	}
	all[waiters-1].notYet(50*time.Millisecond, "the name is held")
	end(name)
	watch.lostWithin(e.noticeTime(dead), "the server ended the lock, for which many wait in the process")
	if free != nil {
		other.finds(name, "somebody who is not a lockport client has the name")
		free(name)
	}
	late := time.Now().Add(e.takeover() + 2*soon)
	for _, w := range all {
		w.granted(time.Until(late), "the holder's lock was ended, and nobody hinders those who wait in the process")
	}
	e.lateRelease(dead)
	n := inside.counted[0] - 1 // but the one that was lost
	e.require(n == waiters || free != nil, "%d holds were counted, %d took place", n, waiters)
	e.rises(inside.lastToken(), other.free(name, "everybody has released the name"))
}

// lostWhileHandedOn ends a lock three times while goroutines of a process hand it on. The holder is told, and the others go on.
func lostWhileHandedOn(e *Env) {
	c, other, name, inside := e.client(), e.party(), e.name(), newHolders()
	inside.losses.Store(true)
	var all []*call[struct{}]
	for range 32 {
		all = append(all, begin(e, "Acquire", func(ctx context.Context) (none struct{}, _ error) {
			for {
				if err := inside.acquire(ctx, e, c, name, 200*time.Microsecond); ctx.Err() != nil {
					return none, nil
				} else if err != nil {
					e.fail(fmt.Errorf("the server forgot the lock while another goroutine had it, yet: %w", err))
					return none, err
				}
			}
		}))
	}
	for range 3 {
		before := inside.acquired.Load()
		e.eventually(e.takeover()+2*soon, func() bool { return inside.acquired.Load() >= before+40 || e.failure() != nil },
			"the server forgets the lock now and then, and goroutines that hand it to each other go on")
		e.stopIfFailed()
		l := e.acquireWithin(c, name, e.takeover()+soon, "the others hold the name for moments only")
		leave, err := inside.enter(0, l)
		e.check(err, "between two losses")
		e.remove(name)
		e.lostWithin(l, e.noticeTime(l), "the server forgot the lock, which goroutines hand to each other")
		e.check(leave(), "after a loss")
		e.lateRelease(l)
	}
	for _, w := range all {
		w.cancel()
		<-w.over
	}
	e.stopIfFailed()
	next := other.takes(name, e.takeover(), "everybody has released the name or lost it")
	e.rises(inside.lastToken(), next.Grant().Token)
	other.stillHolds(name, next, "those who lost it earlier are told")
}

// someOfMany has the server end a few of many locks that are renewed together.
func someOfMany(e *Env) {
	const n, why = 40, "the lock is renewed, together with some that are gone"
	c, other := e.client(), e.party()
	locks := e.acquireMany(c, n)
	e.sleep(e.ttl / 2) // they have been renewed by then
	rand.Shuffle(n, func(i, j int) { locks[i], locks[j] = locks[j], locks[i] })
	gone, kept := locks[:3], locks[3:]
	e.remove(gone[0].Name())
	e.remove(gone[1].Name())
	e.overwrite(gone[2].Name())
	for _, l := range gone {
		e.lostWithin(l, e.noticeTime(l), fmt.Sprintf("of %d locks that are renewed together the server ended this one", n))
	}
	if e.caps.Ends == driver.EndsSession {
		if lease, err := other.try(other.request(kept[0].Name())); err == nil {
			other.release(lease)
			e.notRun("the locks of a session end together")
		}
	}
	next := other.takes(gone[0].Name(), e.takeover(), "the server forgot the lock")
	stop := other.keepAlive(next)
	e.during(2*e.ttl+e.ttl/2, e.ttl/4, func() {
		for _, l := range kept {
			e.check(l.Err(), "of %d locks that are renewed together the server ended three, and another one is lost too", n)
		}
		other.finds(kept[rand.IntN(len(kept))].Name(), why)
	})
	for _, l := range kept {
		e.stays(l, other, why)
		e.release(l)
	}
	other.finds(gone[2].Name(), "somebody who is not a lockport client has the name")
	stop()
	other.stillHolds(gone[0].Name(), next, "the one who lost it has renewed others since")
}
