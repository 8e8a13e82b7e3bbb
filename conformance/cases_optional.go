package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// optionalCases are about the optional interfaces of the package driver.
var optionalCases = group("optional",
	quick("batch", "contract: RenewBatch says of each lease what its Renew would, in its place, however many there are", renewsMany),
	full("batch-keeps", "P1 exclusion: claims that are renewed by RenewBatch stay for as long as they are renewed", func(e *Env) {
		p := e.party()
		p.renewedStay(optional[driver.BatchRenewer](p).RenewBatch)
	}),
	quick("requeue", "contract: Requeue releases the old claim and claims anew, behind who already waits", requeues),
	quick("inspect", "contract: Inspect says who holds a name, with what token and until when, and touches nothing", func(e *Env) {
		p, inspect := e.party(), inspector(e.party())
		name := e.name() + "*?[é/ %"
		st := inspect(name)
		e.require(!st.Held && st.Name == name, "Inspect of a name that nobody ever had: %+v", st)
		req := p.request(name)
		lease := p.claimOf(req)
		st = inspect(name)
		left, since := time.Until(st.Expires), time.Since(st.Since)
		e.require(st.Held && !st.Foreign && st.Name == name, "Inspect of a name that a lockport client has: %+v", st)
		e.require(st.Owner == req.Owner || e.namesSessionOf(st.Owner, req.Owner), "Inspect gives the owner as %q; it is %q", st.Owner, req.Owner)
		e.require(st.Token == 0 || st.Token == lease.Grant().Token, "Inspect gives the token as %d; it is %d", st.Token, lease.Grant().Token)
		e.require(st.Expires.IsZero() || left <= e.ttl+time.Second && left >= -time.Second,
			"Inspect says that the lock expires in %v; its TTL is %v", left, e.ttl)
		e.require(st.Since.IsZero() || since <= e.ttl+callTime && since >= -time.Second, "Inspect says that the lock is held for %v", since)
		p.release(lease)
		st = inspect(name)
		e.require(!st.Held, "Inspect of a name that was released: %+v", st)
	}),
	full("inspect-does-not-renew", "contract: looking at a lock does not prolong it", func(e *Env) {
		p, other, name := e.two()
		inspect, lists := inspector(other), optional[driver.Inspector](other)
		e.needsTTL()
		p.claim(name)
		e.eventually(e.takeover(), func() bool {
			st := inspect(name)
			e.check(errOf(lists.List(e.ctx, name)), "List")
			return !st.Held
		}, "a lock that is looked at all the time, and not renewed, ends with its TTL")
	}),
	quick("list", "contract: List gives the names that are held and start with the prefix, letter by letter, and no others", func(e *Env) {
		p := e.party()
		inspector := optional[driver.Inspector](p)
		base := e.name()
		for _, s := range []string{"a", "ab", "*", "?b", "[a]", "%a", "_a", "é", "A", "a/b"} {
			p.claimOf(p.patientRequest(base + s)) // to look at them all takes its time
		}
		p.free(base+"gone", "the name is new")
		for prefix, want := range map[string]int{
			"": 10, "a": 3, "*": 1, "?": 1, "[": 1, "[a]": 1, "%": 1, "_": 1, "a/": 1, "é": 1, "A": 1, "b": 0, "gone": 0, "\\": 0,
		} {
			ctx, cancel := e.timed()
			found, err := inspector.List(ctx, base+prefix)
			cancel()
			if errors.Is(err, errors.ErrUnsupported) {
				e.notRun("the server does not know the names: %v", err)
			}
			e.check(err, "List")
			e.require(len(found) == want, "List of prefix %q gives %d of the names that are held, not %d: %+v", prefix, len(found), want, found)
			for _, st := range found {
				e.require(st.Held && !st.Foreign && strings.HasPrefix(st.Name, base+prefix), "List of prefix %q gives: %+v", prefix, st)
			}
		}
	}),
	full("inspect-foreign", "contract: Inspect says of a holder that is no lockport client that it is foreign", func(e *Env) {
		inspect, name := inspector(e.party()), e.name()
		e.party().free(name, "the name is new")
		e.overwrite(name)
		st := inspect(name)
		e.require(st.Held && st.Foreign, "Inspect of a name that somebody else's value is on: %+v", st)
	}, "Overwrite"),
	quick("check", "contract: Check of a server that is well returns no error, and notices that say what to do, and touches no lock", func(e *Env) {
		p, other, name := e.two()
		checker := optional[driver.Checker](p)
		lease := p.claim(name)
		ctx, cancel := e.timed()
		defer cancel()
		notices, err := checker.Check(ctx)
		e.check(err, "Check")
		for _, n := range notices {
			e.require(n.ID != "" && n.Text != "" && (n.Remedy != "" || n.Unknown), "a notice lacks its ID, text or remedy: %+v", n)
			e.noPassword(errors.New(n.Text + n.Remedy))
		}
		other.finds(name, "its holder has not released it")
		p.release(lease)
		other.free(name, "it was released")
	}),
	full("check-silent-server", "contract: Check of a server that is silent returns soon after its context's end and is ErrUnavailable",
		checkFails((*Env).freeze), "Freeze"),
	full("check-server-gone", "P10 errors: Check of a server that is not there is ErrUnavailable, in time, in one line without the password",
		checkFails((*Env).sever), "Sever"),
)

// checkFails is a case of a Check of a server that cannot be heard, on a connection that is there and on a new one.
func checkFails(fault func(*Env)) func(*Env) {
	return func(e *Env) {
		connected, fresh := e.party().connected(), e.party()
		fault(e)
		for _, p := range []*party{connected, fresh} {
			checker := optional[driver.Checker](p)
			err := e.endsInTime("Check", func(ctx context.Context) error { return errOf(checker.Check(ctx)) })
			e.is(err, "Check returned", driver.ErrUnavailable)
			e.noPassword(err)
		}
	}
}

// inspector returns what inspects a name.
func inspector(p *party) func(name string) driver.Status {
	inspector := optional[driver.Inspector](p)
	return func(name string) driver.Status {
		ctx, cancel := p.e.timed()
		defer cancel()
		st, err := inspector.Inspect(ctx, name)
		p.e.check(err, "Inspect")
		return st
	}
}

// renewsMany renews many claims together, some of which are gone.
func renewsMany(e *Env) {
	p, other := e.party(), e.party()
	batch := optional[driver.BatchRenewer](p)
	ctx, cancel := e.timed()
	defer cancel()
	batch.RenewBatch(ctx, nil, nil)
	const n = 300
	leases, ttl := make([]driver.Lease, n), p.patientRequest("").TTL
	for i := range leases {
		req := p.patientRequest(e.name()) // to make them all takes its time
		leases[i] = p.claimOf(req)
		e.needsRenewal(leases[i])
		if i%10 == 3 || i%10 == 7 {
			p.abandon(req)
		}
		if i%10 == 7 {
			defer other.releases(other.claim(req.Name))
		}
	}
	results := make([]driver.Renewal, n)
	ctx, cancelled := e.timed()
	defer cancelled()
	sent := time.Now()
	batch.RenewBatch(ctx, leases, results)
	for i, r := range results {
		if i%10 == 3 || i%10 == 7 {
			e.require(errors.Is(r.Err, driver.ErrLost), "result %d is of a claim that is gone, and is not ErrLost but: %w", i, r.Err)
			continue
		}
		before := leases[i].Grant().Until
		e.check(r.Err, "result %d is of a claim that is held, and is", i)
		e.require(!r.Until.Before(before) && r.Until.After(sent),
			"result %d: the renewal moved Until by %v, to %v after it was sent", i, r.Until.Sub(before), r.Until.Sub(sent))
		e.require(time.Until(r.Until) <= ttl, "result %d: the validity left, %v, is longer than the TTL %v", i, time.Until(r.Until), ttl)
	}
}

// requeues has a claim exchanged for a new one: where nobody else waits, where somebody does, and when it is gone.
func requeues(e *Env) {
	a, b, name := e.two()
	requeuer := optional[driver.Requeuer](a)
	requeue := func(old driver.Lease) (lease driver.Lease, req driver.Request, released, err error) {
		ctx, cancel := e.timed()
		defer cancel()
		req = a.request(name)
		req.Queue = true
		lease, released, err = requeuer.Requeue(ctx, old, req)
		lease, err = e.sound(lease, err)
		return lease, req, released, err
	}

	// Nobody else waits.
	old := a.claim(name)
	lease, _, released, err := requeue(old)
	e.require(released == nil && err == nil, "nobody else waits, yet Requeue returned released: %v, and: %w", released, err)
	e.rises(old.Grant().Token, lease.Grant().Token)
	e.is(a.releases(old), "the release of the old lease returned", nil, driver.ErrLost)
	b.finds(name, "Requeue granted the name again, and only the old lease was released")

	// Somebody waits.
	if !e.caps.Queue {
		a.release(lease)
		return
	}
	waits := b.queueing(name)
	e.is(errOf(b.try(waits)), "a claim on a name that is held was not ErrHeld but", driver.ErrHeld)
	_, again, released, err := requeue(lease)
	e.check(released, "Requeue did not release the old claim")
	if e.caps.Fair != driver.FairNone {
		e.is(err, "another client waited already, yet the claim of Requeue was not ErrHeld but", driver.ErrHeld)
	}
	b.release(b.takesOf(waits, soon, "it waited first"))
	a.release(a.takesOf(again, soon, "it waited, and the other has released the name"))

	// The old claim is gone.
	gone := a.request(name)
	old = a.claimOf(gone)
	a.abandon(gone)
	lease, again, _, err = requeue(old)
	a.settle(again, lease, err)
	b.free(name, "everything was released")
}

// namesSessionOf says whether shown, from Inspect, stands for the session of owner's claim. A server that knows no owner ids shows
// "session-" and the session's number, and then the beginning of owner's client part.
func (e *Env) namesSessionOf(shown, owner string) bool {
	client := driver.OwnerClient(shown)
	return e.caps.Ends == driver.EndsSession && strings.HasPrefix(shown, "session-") && client != "" && strings.HasPrefix(driver.OwnerClient(owner), client)
}
