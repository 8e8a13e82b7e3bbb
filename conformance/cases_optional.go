package conformance

import (
	"errors"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// optionalCases test the optional interfaces of package driver.
var optionalCases = group("optional",
	quick("requeue", "contract: Requeue releases the old claim and makes a new one, behind clients that already wait", func(e *Env) {
		a, b, name := e.two()
		requeuer := optional[driver.Requeuer](a)
		requeue := func(old driver.Lease) (lease driver.Lease, req driver.Request, released, err error) {
			req = a.request(name)
			req.Queue = true
			lease, released, err = requeuer.Requeue(e.ctx, old, req)
			lease, err = e.sound(lease, err)
			return lease, req, released, err
		}

		// Nobody else waits.
		old := a.claim(name)
		lease, _, released, err := requeue(old)
		e.require(released == nil && err == nil, "nobody else waits, yet Requeue returned the errors: %v; %w", released, err)
		e.rises(old.Grant().Token, lease.Grant().Token)
		e.is(a.tryRelease(old), "the release of the old lease must return nil or ErrLost; it returned", nil, driver.ErrLost)
		b.wantHeld(name, "Requeue granted the name again, and only the old lease was released")

		// Another client waits.
		if !e.caps.Queue {
			a.release(lease)
			return
		}
		waits := b.queueing(name)
		b.wantHeldAs(waits, "the name is held")
		_, again, released, err := requeue(lease)
		e.check(released, "Requeue did not release the old claim")
		if e.caps.Fair != driver.FairNone {
			e.is(err, "another client waits already, yet the claim of Requeue was not ErrHeld but", driver.ErrHeld)
		}
		b.release(b.takeAs(waits, soon, "it waited first"))
		a.release(a.takeAs(again, soon, "it waited, and the first waiter released the name"))

		// The old claim is lost.
		gone := a.request(name)
		old = a.claimAs(gone)
		a.abandon(gone)
		lease, again, _, err = requeue(old)
		a.settle(again, lease, err)
		b.wantFree(name, "all claims were released")
	}),
	quick("inspect", "contract: Inspect returns the holder of a name, its token and expiry, and changes nothing", func(e *Env) {
		p, other := e.party(), e.party()
		name := e.name() + "*?[é/ %"
		st := other.inspect(name)
		e.require(!st.Held && st.Name == name, "nobody ever held the name, but Inspect returned: %+v", st)
		req := p.request(name)
		lease := p.claimAs(req)
		st = other.inspect(name)
		left, since := time.Until(st.Expires), time.Since(st.Since)
		e.require(st.Held && !st.Foreign && st.Name == name, "a lockport client holds the name, but Inspect returned: %+v", st)
		e.require(st.Owner == req.Owner || e.namesSessionOf(st.Owner, req.Owner), "Inspect returned the owner %q; it is %q", st.Owner, req.Owner)
		e.require(st.Token == 0 || st.Token == lease.Grant().Token, "Inspect returned the token %d; it is %d", st.Token, lease.Grant().Token)
		e.require(st.Expires.IsZero() || left <= e.ttl+time.Second && left >= -time.Second,
			"Inspect says that the lock expires in %v, but its TTL is %v", left, e.ttl)
		e.require(st.Since.IsZero() || since <= e.ttl+callTime && since >= -time.Second, "the lock is new, but Inspect says that it is held for %v", since)
		p.release(lease)
		st = other.inspect(name)
		e.require(!st.Held, "the name was released, but Inspect returned: %+v", st)
	}),
	full("inspect-does-not-renew", "contract: Inspect and List do not extend a claim", func(e *Env) {
		p, other, name := e.two()
		inspector := optional[driver.Inspector](other)
		e.needsTTL()
		p.claim(name)
		e.eventually(e.takeover(), func() bool {
			st := other.inspect(name)
			e.check(errOf(inspector.List(e.ctx, name)), "List")
			return !st.Held
		}, "a claim that is inspected but not renewed ends with its TTL")
	}),
	quick("list", "contract: List returns exactly the held names that start with the prefix, taken literally", func(e *Env) {
		p := e.party()
		inspector := optional[driver.Inspector](p)
		base := e.name()
		for _, s := range []string{"a", "ab", "*", "?b", "[a]", "%a", "_a", "é", "A", "a/b"} {
			p.claimAs(p.patientRequest(base + s)) // listing takes time
		}
		p.wantFree(base+"gone", "the name is new")
		for prefix, want := range map[string]int{
			"": 10, "a": 3, "*": 1, "?": 1, "[": 1, "[a]": 1, "%": 1, "_": 1, "a/": 1, "é": 1, "A": 1, "b": 0, "gone": 0, "\\": 0,
		} {
			found, err := inspector.List(e.ctx, base+prefix)
			e.applies(!errors.Is(err, errors.ErrUnsupported), "the server does not know the names: %v", err)
			e.check(err, "List")
			e.require(len(found) == want, "List of prefix %q returned %d held names; there are %d: %+v", prefix, len(found), want, found)
			for _, st := range found {
				e.require(st.Held && !st.Foreign && strings.HasPrefix(st.Name, base+prefix), "List of prefix %q returned a wrong status: %+v", prefix, st)
			}
		}
	}),
	quick("check", "contract: Check of a healthy server returns no error, its notices say what to do, and it affects no lock", func(e *Env) {
		p, other, name := e.two()
		checker := optional[driver.Checker](p)
		lease := p.claim(name)
		notices, err := checker.Check(e.ctx)
		e.check(err, "Check")
		for _, n := range notices {
			e.require(n.ID != "" && n.Text != "" && (n.Remedy != "" || n.Unknown), "a notice lacks its ID, text or remedy: %+v", n)
			e.noPassword(errors.New(n.Text + n.Remedy))
		}
		other.wantHeld(name, "its holder has not released the name")
		p.release(lease)
		other.wantFree(name, "the name was released")
	}),
)

// inspect inspects a name.
func (p *party) inspect(name string) driver.Status {
	st, err := optional[driver.Inspector](p).Inspect(p.e.ctx, name)
	p.e.check(err, "Inspect")
	return st
}

// namesSessionOf reports whether shown, from Inspect, stands for the session of owner's claim. A server that does not know owner
// ids shows "session-", the session's number, and the start of owner's client part.
func (e *Env) namesSessionOf(shown, owner string) bool {
	client := driver.OwnerClient(shown)
	return e.caps.Ends == driver.EndsSession && strings.HasPrefix(shown, "session-") && client != "" && strings.HasPrefix(driver.OwnerClient(owner), client)
}
