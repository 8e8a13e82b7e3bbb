package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// removalCases test P3b of the driver: the server ends a claim, and the holder is told.
var removalCases = group("removal",
	full("forgotten",
		"P3b removal: when the server forgets a lock, its holder is told once, within Capabilities.RemovalNotice; "+
			"its renewal and release return ErrLost and do not affect the next holder", func(e *Env) {
			a, b, name := e.two()
			early := a.request(e.name())
			lease := a.claimAs(early)
			e.remove(early.Name)
			e.require(a.tryRelease(lease) != nil, "the server forgot the lock, yet its release, before the holder was told, returned nil")
			a.abandon(early)
			e.rises(lease.Grant().Token, a.wantFreeIn(early.Name, e.takeover(), "the server forgot the lock"))
			told := a.watched(a.request(name))
			e.remove(name)
			told.within("the lock was removed at the server")
			next := b.take(name, e.takeover(), "the server forgot the lock")
			b.stillHolds(name, next, "the earlier holder renewed and released late", told.isLost)
		}, "Remove"),
	full("overwritten",
		"P3b removal: when a foreign value replaces a lock, its holder is told once, within Capabilities.RemovalNotice; "+
			"its renewal and release return ErrLost, and neither they nor Abandon affect that value, which Inspect marks as Foreign", func(e *Env) {
			a, b, name := e.two()
			told := a.watched(a.request(name))
			e.overwrite(name)
			told.within("the lock was overwritten at the server")
			b.wantHeld(name, "a foreign client has the name")
			if _, ok := driver.As[driver.Inspector](b.Backend); ok {
				st := b.inspect(name)
				e.require(st.Held && st.Foreign, "a foreign client holds the name, but Inspect returned: %+v", st)
			}
			told.isLost()
			b.wantHeld(name, "a foreign client has the name, and the former holder renewed, released and abandoned")
		}, "Overwrite"),
	quick("broken", "P3b removal: Break ends only the claim of the given owner, which is told once, within Capabilities.RemovalNotice", func(e *Env) {
		a, b, name := e.two()
		told := a.watched(a.request(name))
		waits := b.queueing(name)
		b.wantHeldAs(waits, "the name is held")
		st := b.inspect(name)
		e.require(st.Waiters != 0 || !waits.Queue, "a client waits in the server's queue, but Inspect shows no waiter")
		e.is(b.breaks(name, waits.Owner), "Break of an owner that does not have the name, but waited for it, was not ErrLost but", driver.ErrLost)
		b.abandon(waits)
		b.wantHeld(name, "Break was called for another owner")
		e.check(b.breaks(name, st.Owner), "Break")
		told.within("the lock was broken")
		next := b.take(name, soon, "the lock was broken")
		again := func() {
			e.is(b.breaks(name, st.Owner), "the second Break of the same owner was not ErrLost but", driver.ErrLost)
		}
		b.stillHolds(name, next, "the former holder renewed and released late, and Break was repeated", told.isLost, again)
	}),
	full("no-false-alarm", "P3b removal: a holder is never told of a loss while it has its claim", func(e *Env) {
		a, b, name := e.two()
		told := a.watched(a.request(name))
		release := a.keep(told.lease)
		e.during(2*e.ttl, func() { b.wantHeld(name, "the holder renews its claim") })
		n := told.count.Load()
		e.require(n == 0, "the holder was told %d times that its claim is lost, but it is not: %v", n, told.reason.Load())
		release()
	}),
)

// breaks breaks the claim of owner on a name.
func (p *party) breaks(name, owner string) error {
	return optional[driver.Breaker](p).Break(p.e.ctx, name, owner)
}

// watched makes a claim with a Lost callback, which must be called at most once until the case has ended.
func (p *party) watched(req driver.Request) *told {
	t := &told{p: p, req: req, first: make(chan struct{})}
	req.Lost = func(err error) {
		if t.count.Add(1) == 1 {
			t.reason.Store(&err)
			close(t.first)
		}
	}
	t.lease = p.claimAs(req)
	p.e.after(func() {
		if n := t.count.Load(); n > 1 {
			p.e.fail(fmt.Errorf("the driver called Lost %d times; at most once is allowed", n))
		}
	})
	return t
}

// told records the calls of a Lost callback.
type told struct {
	p      *party
	req    driver.Request
	lease  driver.Lease
	count  atomic.Int64
	reason atomic.Pointer[error]
	first  chan struct{}
}

// within checks that the holder is told within Capabilities.RemovalNotice, if that is stated.
func (t *told) within(what string) {
	e := t.p.e
	if e.caps.RemovalNotice == nil {
		return
	}
	limit, err := e.caps.RemovalNotice(e.ttl), errors.New("none was sent")
	end := time.After(limit + endTime)
	for {
		var renew <-chan time.Time
		if period := e.ttl / 4; limit >= period { // late enough for a renewal to tell the holder
			renew = time.After(period)
		}
		select {
		case <-t.first:
			return
		case <-renew:
			if err = t.p.renewIfNeeded(t.lease); errors.Is(err, driver.ErrLost) {
				return
			}
		case <-end:
			e.failf("%s and Capabilities.RemovalNotice states %v, but Lost was not called within %v; the last renewal: %v",
				what, limit, limit+endTime, err)
		}
	}
}

// isLost checks that renewal and release of a claim that the server ended return ErrLost, and abandons it. Another client has the name, or the
// claim shared it.
func (t *told) isLost() {
	e, p := t.p.e, t.p
	if !t.lease.Grant().Until.IsZero() {
		e.is(p.renewIfNeeded(t.lease), "the renewal of a claim that the server ended was not ErrLost but", driver.ErrLost)
	}
	if _, ok := driver.As[driver.Requeuer](p.Backend); ok && !t.req.Shared && t.req.Permits == 0 {
		_, again, released, err := p.requeue(t.req.Name, t.lease)
		e.is(released, "P4 ownership: Requeue of a claim that the server ended did not return ErrLost for its release but", driver.ErrLost)
		e.is(err, "another client has the name, yet Requeue did not return ErrHeld for its claim but", driver.ErrHeld)
		p.abandon(again)
	}
	for range 2 {
		e.is(p.tryRelease(t.lease), "the release of a claim that the server ended was not ErrLost but", driver.ErrLost)
	}
	p.abandon(t.req)
}

const ruleLoss = "P3b removal: when the server ends a lock, its holder is told within the stated time, and its release returns ErrLost"

const ruleLossAmongMany = "P3b removal, P7 liveness: a loss is reported, no waiter in the process is handed the lost lock, and all of them get the name"

// lossCases test P3b of the client.
var lossCases = group("loss",
	full("forgotten", ruleLoss+" (the server forgot it)", func(e *Env) { toldOfLoss(e, e.remove, false) }, "Remove"),
	full("overwritten", ruleLoss+" (a foreign value took its place)", func(e *Env) { toldOfLoss(e, e.overwrite, true) }, "Overwrite"),
	full("broken", ruleLoss+" (it was broken)", func(e *Env) { toldOfLoss(e, e.breaker(), false) }),
	full("waiter-gets-it", "P7 liveness: when the server forgets a holder, the waiter gets the name", func(e *Env) {
		l := e.acquire(e.client(), e.name())
		next := e.acquiring(e.client(), l.Name())
		next.notYet(50*time.Millisecond, "the name is held")
		e.remove(l.Name())
		// If nobody tells the waiter, it tries again when the holder's claim would have expired.
		e.release(next.granted(e.takeover()+soon, "the server forgot the holder"))
		e.lostWithin(l, e.noticeTime(l), "the server forgot the lock")
	}, "Remove"),
	full("forgotten-while-many-wait", ruleLossAmongMany+" (the server forgot it)",
		func(e *Env) { lostWhileManyWait(e, e.remove, nil) }, "Remove"),
	full("overwritten-while-many-wait", ruleLossAmongMany+" (a foreign value took its place)",
		func(e *Env) { lostWhileManyWait(e, e.overwrite, e.remove) }, "Overwrite"),
	full("broken-while-many-wait", ruleLossAmongMany+" (it was broken)",
		func(e *Env) { lostWhileManyWait(e, e.breaker(), nil) }).alone(),
	full("forgotten-while-handed-on",
		"P2 fencing, P3b removal: if the server forgets a lock while goroutines hand it off, it has one holder at a time, and tokens rise",
		func(e *Env) {
			c, other, name, inside := e.client(), e.party(), e.name(), newHolders()
			inside.losses.Store(true)
			var all []*call[struct{}]
			for range 32 {
				all = append(all, e.start("Acquire", func(ctx context.Context) error {
					for {
						if err := inside.acquire(ctx, e, c, name, 200*time.Microsecond); ctx.Err() != nil {
							return nil
						} else if err != nil {
							e.fail(fmt.Errorf("the server forgot a lock that goroutines hand off, and one of them failed: %w", err))
							return err
						}
					}
				}))
			}
			for range 3 {
				before := atomic.LoadInt64(&inside.Acquired)
				e.eventually(e.takeover()+2*soon, func() bool { return atomic.LoadInt64(&inside.Acquired) >= before+40 || e.failure() != nil },
					"goroutines go on handing off a lock that the server forgets at times")
				e.stopIfFailed()
				l := e.acquireWithin(c, name, e.takeover()+soon, "the others hold the name for moments only")
				leave, err := inside.enter(0, l)
				e.check(err, "between two losses")
				e.remove(name)
				e.lostWithin(l, e.noticeTime(l), "the server forgot a lock that goroutines hand off")
				e.check(leave(), "after a loss")
				e.lateRelease(l)
			}
			for _, w := range all {
				w.stop()
			}
			e.stopIfFailed()
			next := other.take(name, e.takeover(), "all goroutines released or lost the lock")
			e.rises(inside.lastToken(), next.Grant().Token)
			other.stillHolds(name, next, "earlier holders were told of their loss")
		}, "Remove"),
	full("some-of-many",
		"P1 exclusion, P3b removal: of many locks renewed together, those that the server ends are lost, and the others stay held",
		func(e *Env) {
			const n, why = 40, "the lock is renewed together with lost ones"
			c, other := e.client(), e.party()
			locks := e.acquireMany(c, n)
			e.sleep(e.ttl / 2) // they have been renewed now
			rand.Shuffle(n, func(i, j int) { locks[i], locks[j] = locks[j], locks[i] })
			gone, kept := locks[:3], locks[3:]
			e.remove(gone[0].Name())
			e.remove(gone[1].Name())
			e.overwrite(gone[2].Name())
			for _, l := range gone {
				e.lostWithin(l, e.noticeTime(l), fmt.Sprintf("the server ended this lock, one of %d renewed together", n))
			}
			if e.caps.Ends == driver.EndsSession {
				if lease, err := other.try(other.request(kept[0].Name())); err == nil {
					other.release(lease)
					e.notRun("the locks of a session end together")
				}
			}
			next := other.take(gone[0].Name(), e.takeover(), "the server forgot the lock")
			stop := other.keepAlive(next)
			e.during(2*e.ttl+e.ttl/2, func() {
				for _, l := range kept {
					e.check(l.Err(), "of %d locks renewed together the server ended three, but another one is lost too", n)
				}
				other.wantHeld(kept[rand.IntN(len(kept))].Name(), why)
			})
			for _, l := range kept {
				e.stillHeld(l, other, why)
				e.release(l)
			}
			other.wantHeld(gone[2].Name(), "a foreign client has the name")
			stop()
			other.stillHolds(gone[0].Name(), next, "the client that lost the name has renewed other locks since")
		}, "Overwrite"),
)

// breaker returns a function that breaks the claim on a name.
func (e *Env) breaker() func(name string) {
	p := e.party()
	optional[driver.Breaker](p)
	return func(name string) { e.check(p.breaks(name, p.inspect(name).Owner), "Break") }
}

// toldOfLoss calls end to end a lock at the server, and checks what its holder is told. foreign says that end gives the name to a
// foreign client.
func toldOfLoss(e *Env, end func(name string), foreign bool) {
	observer := e.party()
	c, limit := e.client(), time.Duration(0)
	if notice, long := e.caps.RemovalNotice, e.longTTL(); e.caps.FixedTTL == 0 && notice != nil && notice(long)+endTime < long/4 {
		c, limit = e.patient(), notice(long)+endTime // no renewal precedes the notice
	}
	l := e.acquire(c, e.name())
	limit = cmp.Or(limit, e.noticeTime(l))
	lostWithin := e.watch(l)
	end(l.Name())
	lostWithin(limit, "the server ended the lock")
	if foreign {
		for range 5 { // the client's late and background releases must not remove it
			e.lateRelease(l)
			observer.wantHeld(l.Name(), "a foreign client has the name")
			e.sleep(20 * time.Millisecond)
		}
		return
	}
	next := observer.take(l.Name(), e.takeover(), "the server ended the lock")
	e.lateRelease(l)
	e.lateRelease(l)
	e.rises(token(l)/driver.TokensPerGrant, next.Grant().Token)
	observer.stillHolds(l.Name(), next, "the former holder released late")
}

// lostWhileManyWait calls end to end a lock for which hundreds of goroutines of the holder's client wait. If end gives the name
// to a foreign client, free removes that. Some goroutines may then have held the lock and lost it.
func lostWhileManyWait(e *Env, end, free func(name string)) {
	const waiters = 300
	c, other := e.client(), e.party()
	dead := e.acquire(c, e.name())
	name, lostWithin, inside := dead.Name(), e.watch(dead), newHolders()
	inside.losses.Store(free != nil)
	e.check(errOf(inside.enter(0, dead)), "before the loss")
	var all []*call[struct{}]
	for range waiters {
		all = append(all, e.start("Acquire", func(ctx context.Context) error {
			l, err := c.Acquire(ctx, name)
			switch {
			case err != nil:
				return err
			case l.Owner() == dead.Owner():
				return errors.New("a waiter in the process was handed the claim that the server ended")
			}
			return inside.hold(e.ctx, 0, l, 0)
		}))
	}
	all[waiters-1].notYet(50*time.Millisecond, "the name is held")
	end(name)
	lostWithin(e.noticeTime(dead), "the server ended a lock for which many goroutines wait")
	if free != nil {
		other.wantHeld(name, "a foreign client has the name")
		free(name)
	}
	late := time.Now().Add(e.takeover() + 2*soon)
	for _, w := range all {
		w.granted(time.Until(late), "the server ended the holder's lock, and nobody else wants the name")
	}
	e.lateRelease(dead)
	e.rises(inside.lastToken(), other.wantFree(name, "all waiters released the name"))
}
