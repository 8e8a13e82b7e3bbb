package conformance

import (
	"errors"
	"fmt"
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
			told := a.watched(a.request(name))
			e.remove(name)
			told.within("the lock was removed at the server")
			next := b.take(name, e.takeover(), "the server forgot the lock")
			told.isLost()
			b.stillHolds(name, next, "the earlier holder renewed and released late")
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
			b.wantHeld(name, "a foreign client has the name, and the former holder renewed and released")
			a.abandon(a.request(name))
			b.wantHeld(name, "a foreign client has the name")
		}, "Overwrite"),
	quick("broken", "P3b removal: Break ends only the claim of the given owner, which is told once, within Capabilities.RemovalNotice", func(e *Env) {
		a, b, name := e.two()
		told := a.watched(a.request(name))
		st := b.inspect(name)
		e.is(b.breaks(name, a.request(name).Owner), "Break of an owner that does not have the name was not ErrLost but", driver.ErrLost)
		b.wantHeld(name, "Break was called for another owner")
		e.check(b.breaks(name, st.Owner), "Break")
		told.within("the lock was broken")
		next := b.take(name, soon, "the lock was broken")
		told.isLost()
		e.is(b.breaks(name, st.Owner), "the second Break of the same owner was not ErrLost but", driver.ErrLost)
		b.stillHolds(name, next, "the former holder renewed and released late, and Break was repeated")
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
	t := &told{p: p, first: make(chan struct{})}
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
	limit := e.caps.RemovalNotice(e.ttl)
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
			if errors.Is(t.p.renewIfNeeded(t.lease), driver.ErrLost) {
				return
			}
		case <-end:
			e.failf("%s and Capabilities.RemovalNotice states %v, but Lost was not called within %v", what, limit, limit+endTime)
		}
	}
}

// isLost checks that renewal and release of a claim that the server ended return ErrLost.
func (t *told) isLost() {
	if !t.lease.Grant().Until.IsZero() {
		t.p.e.is(t.p.renewIfNeeded(t.lease), "the renewal of a claim that the server ended was not ErrLost but", driver.ErrLost)
	}
	for range 2 {
		t.p.e.is(t.p.tryRelease(t.lease), "the release of a claim that the server ended was not ErrLost but", driver.ErrLost)
	}
}
