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
			a, b := e.party(), e.party()
			name := e.name()
			lease, told := a.watched(name)
			e.remove(name)
			told.within("the lock was removed at the server")
			next := b.takes(name, e.takeover(), "the server forgot the lock")
			a.isLost(lease)
			e.stillHolds(b, name, next, "the earlier holder came to renew and release")
			told.once()
		}).needing(NeedRemove),
	full("overwritten",
		"P3b removal: when somebody else's value took the place of the lock, the holder is told in the stated time, once; "+
			"its renewal, release and Abandon say ErrLost or nothing and leave that value alone", func(e *Env) {
			a, b := e.party(), e.party()
			name := e.name()
			lease, told := a.watched(name)
			e.overwrite(name)
			told.within("the lock was overwritten at the server")
			b.finds(name, "somebody who is not a lockport client has the name")
			a.isLost(lease)
			b.finds(name, "somebody who is not a lockport client has the name, and the former holder has renewed and released")
			a.abandon(a.request(name))
			b.finds(name, "somebody who is not a lockport client has the name")
			told.once()
		}).needing(NeedOverwrite),
	quick("broken", "P3b removal: Break ends the claim of the owner that it names and of no other; the holder is told in the stated time, once", func(e *Env) {
		a, b := e.party(), e.party()
		breaker := optional[driver.Breaker](b)
		inspector, ok := driver.As[driver.Inspector](b.Backend)
		if !ok {
			e.failf("a backend that can break locks must be able to show their owners: it is no driver.Inspector")
		}
		name := e.name()
		lease, told := a.watched(name)
		ctx, cancel := e.timed()
		defer cancel()
		st, err := inspector.Inspect(ctx, name)
		e.check(err, "Inspect")
		e.is(breaker.Break(ctx, name, a.request(name).Owner), driver.ErrLost, "Break of an owner that does not have the name was not ErrLost but")
		b.finds(name, "Break named another owner")
		e.check(breaker.Break(ctx, name, st.Owner), "Break")
		told.within("the lock was broken")
		next := b.takes(name, soon, "the lock was broken")
		a.isLost(lease)
		e.is(breaker.Break(ctx, name, st.Owner), driver.ErrLost, "the second Break of the same owner was not ErrLost but")
		e.stillHolds(b, name, next, "the broken holder came to renew and release, and was broken again")
		told.once()
	}),
	full("no-false-alarm", "P3b removal: a holder whose claim is there is never told that it is lost", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		lease, told := a.watched(name)
		stop := a.keepAlive(lease)
		for end := time.Now().Add(2 * e.ttl); time.Now().Before(end); {
			b.finds(name, "the holder renews its claim")
			e.sleep(e.ttl / 10)
		}
		stop()
		if n := told.count.Load(); n > 0 {
			e.failf("the holder was told %d times that its claim is lost: %v", n, told.reason.Load())
		}
		a.release(lease)
	}),
)

// watched claims name with a Lost callback.
func (p *party) watched(name string) (driver.Lease, *told) {
	t := &told{e: p.e, p: p, first: make(chan struct{})}
	req := p.request(name)
	req.Lost = func(err error) {
		if t.count.Add(1) == 1 {
			t.reason.Store(&err)
			close(t.first)
		}
	}
	t.lease, _ = p.claimOf(req)
	return t.lease, t
}

// told is what a Lost callback learned.
type told struct {
	e      *Env
	p      *party
	lease  driver.Lease
	count  atomic.Int64
	reason atomic.Pointer[error]
	first  chan struct{}
}

// within checks that the holder is told in the time that the backend states, if it states one.
func (t *told) within(what string) {
	notice := t.e.caps.RemovalNotice
	if notice == nil {
		return
	}
	limit := notice(t.e.ttl)
	end := time.After(limit + endTime)
	for {
		var renew <-chan time.Time
		if period := t.e.ttl / 4; limit >= period { // so late that the client's renewal may be what tells
			renew = time.After(period)
		}
		select {
		case <-t.first:
			return
		case <-renew:
			if _, err := t.p.renewsIfItMust(t.lease); errors.Is(err, driver.ErrLost) {
				return
			}
		case <-end:
			t.e.failf("%s, and Capabilities.RemovalNotice states %v, but Lost was not called for %v", what, limit, limit+endTime)
		}
	}
}

// once checks that Lost was called once at most.
func (t *told) once() {
	if n := t.count.Load(); n > 1 {
		t.e.failf("Lost was called %d times; at most once is allowed", n)
	}
}

// isLost checks that a claim that is known to be gone is ErrLost to its holder.
func (p *party) isLost(lease driver.Lease) {
	if !lease.Grant().Until.IsZero() {
		p.e.is(errOf(p.renews(lease)), driver.ErrLost, "the renewal of a claim that the server ended was not ErrLost but")
	}
	for range 2 {
		p.e.is(p.releases(lease), driver.ErrLost, "the release of a claim that the server ended was not ErrLost but")
	}
}
