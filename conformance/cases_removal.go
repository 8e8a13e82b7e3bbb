package conformance

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// removalCases are about P3b, at the driver: the server ends a claim, and the holder is told.
var removalCases = group("removal",
	full("forgotten",
		"P3b removal: when the server forgot the lock, the holder is told in the time that Capabilities.RemovalNotice states, once; "+
			"its renewal and release say ErrLost and change nothing of the next holder's claim", func(e *Env) {
			a, b, name := e.two()
			told := a.watched(name)
			e.remove(name)
			told.within("the lock was removed at the server")
			next := b.takesOf(b.patientRequest(name), e.takeover(), "the server forgot the lock")
			told.isLost()
			b.stillHolds(name, next, "the earlier holder came to renew and release")
			told.once()
		}, "Remove"),
	full("overwritten",
		"P3b removal: when somebody else's value took the place of the lock, the holder is told in the stated time, once; "+
			"its renewal, release and Abandon say ErrLost or nothing and leave that value alone", func(e *Env) {
			a, b, name := e.two()
			told := a.watched(name)
			e.overwrite(name)
			told.within("the lock was overwritten at the server")
			b.finds(name, "somebody who is not a lockport client has the name")
			told.isLost()
			b.finds(name, "somebody who is not a lockport client has the name, and the former holder has renewed and released")
			a.abandon(a.request(name))
			b.finds(name, "somebody who is not a lockport client has the name")
			told.once()
		}, "Overwrite"),
	quick("broken", "P3b removal: Break ends the claim of the owner that it names and of no other; the holder is told in the stated time, once", func(e *Env) {
		a, b, name := e.two()
		breaks, inspect := breaker(b), inspector(b)
		told := a.watched(name)
		st := inspect(name)
		e.is(breaks(name, a.request(name).Owner), "Break of an owner that does not have the name was not ErrLost but", driver.ErrLost)
		b.finds(name, "Break named another owner")
		e.check(breaks(name, st.Owner), "Break")
		told.within("the lock was broken")
		next := b.takesOf(b.patientRequest(name), soon, "the lock was broken")
		told.isLost()
		e.is(breaks(name, st.Owner), "the second Break of the same owner was not ErrLost but", driver.ErrLost)
		b.stillHolds(name, next, "the broken holder came to renew and release, and was broken again")
		told.once()
	}),
	full("no-false-alarm", "P3b removal: a holder whose claim is there is never told that it is lost", func(e *Env) {
		a, b, name := e.two()
		told := a.watched(name)
		stop := a.keepAlive(told.lease)
		e.during(2*e.ttl, e.ttl/10, func() { b.finds(name, "the holder renews its claim") })
		stop()
		n := told.count.Load()
		e.require(n == 0, "the holder was told %d times that its claim is lost: %v", n, told.reason.Load())
		a.release(told.lease)
	}),
)

// breaker returns what breaks the claim of owner on a name, where the backend can.
func breaker(p *party) func(name, owner string) error {
	b := optional[driver.Breaker](p)
	_, shows := driver.As[driver.Inspector](p.Backend)
	p.e.require(shows, "a backend that can break locks must be able to show their owners: it is no driver.Inspector")
	return func(name, owner string) error {
		ctx, cancel := p.e.timed()
		defer cancel()
		return b.Break(ctx, name, owner)
	}
}

// watched claims name with a Lost callback.
func (p *party) watched(name string) *told { return p.watchedAs(p.request(name)) }

// watchedAs is watched for a request of the case's own.
func (p *party) watchedAs(req driver.Request) *told {
	t := &told{p: p, first: make(chan struct{})}
	req.Lost = func(err error) {
		if t.count.Add(1) == 1 {
			t.reason.Store(&err)
			close(t.first)
		}
	}
	t.lease = p.claimOf(req)
	return t
}

// told is what a Lost callback learned.
type told struct {
	p      *party
	lease  driver.Lease
	count  atomic.Int64
	reason atomic.Pointer[error]
	first  chan struct{}
}

// within checks that the holder is told in the time that the backend states, if it states one.
func (t *told) within(what string) {
	e := t.p.e
	if e.caps.RemovalNotice == nil {
		return
	}
	limit := e.caps.RemovalNotice(e.ttl)
	end := time.After(limit + endTime)
	for {
		var renew <-chan time.Time
		if period := e.ttl / 4; limit >= period { // so late that the client's renewal may be what tells
			renew = time.After(period)
		}
		select {
		case <-t.first:
			return
		case <-renew:
			if errors.Is(t.p.renewsIfItMust(t.lease), driver.ErrLost) {
				return
			}
		case <-end:
			e.failf("%s, and Capabilities.RemovalNotice states %v, but Lost was not called for %v", what, limit, limit+endTime)
		}
	}
}

// once checks that Lost was called once at most.
func (t *told) once() {
	n := t.count.Load()
	t.p.e.require(n <= 1, "Lost was called %d times; at most once is allowed", n)
}

// isLost checks that a claim that is known to be gone is ErrLost to its holder.
func (t *told) isLost() {
	if !t.lease.Grant().Until.IsZero() {
		t.p.e.is(t.p.renewsIfItMust(t.lease), "the renewal of a claim that the server ended was not ErrLost but", driver.ErrLost)
	}
	for range 2 {
		t.p.e.is(t.p.releases(t.lease), "the release of a claim that the server ended was not ErrLost but", driver.ErrLost)
	}
}
