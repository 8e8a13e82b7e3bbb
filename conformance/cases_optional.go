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
	quick("batch", "contract: RenewBatch says of each lease what its Renew would, in its place, however many there are", func(e *Env) {
		p, other := e.party(), e.party()
		batch := optional[driver.BatchRenewer](p)
		nothing, cancel := e.timed()
		batch.RenewBatch(nothing, nil, nil)
		cancel()
		const n = 300
		leases := make([]driver.Lease, n)
		for i := range leases {
			name := e.name()
			req := p.patientRequest(name) // to make them all takes its time
			leases[i], _ = p.claimOf(req)
			switch i % 10 {
			case 3:
				p.abandon(req)
			case 7:
				p.abandon(req)
				defer other.releases(other.claim(name))
			}
			if leases[i].Grant().Until.IsZero() {
				e.notRun("claims have no end of their own, so they are not renewed")
			}
		}
		results := make([]driver.Renewal, n)
		ctx, cancel := e.timed()
		defer cancel()
		sent := time.Now()
		batch.RenewBatch(ctx, leases, results)
		ttl := p.patientRequest("").TTL
		for i, r := range results {
			switch gone := i%10 == 3 || i%10 == 7; {
			case gone && !errors.Is(r.Err, driver.ErrLost):
				e.failf("result %d is of a claim that is gone, and is not ErrLost but: %w", i, orNone(r.Err))
			case !gone && r.Err != nil:
				e.failf("result %d is of a claim that is held, and is: %w", i, r.Err)
			case !gone && (r.Until.Before(leases[i].Grant().Until) || !r.Until.After(sent)):
				e.failf("result %d: the renewal moved Until by %v, to %v after it was sent",
					i, r.Until.Sub(leases[i].Grant().Until), r.Until.Sub(sent))
			case !gone && time.Until(r.Until) > ttl:
				e.failf("result %d: the validity left, %v, is longer than the TTL %v", i, time.Until(r.Until), ttl)
			}
		}
	}),
	full("batch-keeps", "P1 exclusion: claims that are renewed by RenewBatch stay for as long as they are renewed", func(e *Env) {
		p, other := e.party(), e.party()
		batch := optional[driver.BatchRenewer](p)
		for range 5 {
			if renewedStay(e, p, other, batch) {
				return
			}
		}
		e.notRun("the machine stalls for longer than claims are valid")
	}),
	quick("requeue", "contract: Requeue releases the old claim and claims anew, behind who already waits", func(e *Env) {
		a, b := e.party(), e.party()
		requeuer := optional[driver.Requeuer](a)
		ctx, cancel := e.timed()
		defer cancel()
		name := e.name()
		requeue := func(old driver.Lease) (driver.Lease, driver.Request, error, error) {
			req := a.request(name)
			req.Queue = true
			lease, released, err := requeuer.Requeue(ctx, old, req)
			lease, err = a.sound(lease, err)
			return lease, req, released, err
		}

		// Nobody else waits.
		old := a.claim(name)
		lease, _, released, err := requeue(old)
		if released != nil || err != nil {
			e.failf("nobody else waits, yet Requeue returned released: %v, and: %w", released, orNone(err))
		}
		if before, now := old.Grant().Token, lease.Grant().Token; before != 0 && now <= before {
			e.failf("P2 fencing: Requeue granted token %d after %d", now, before)
		}
		if err := a.releases(old); err != nil && !errors.Is(err, driver.ErrLost) {
			e.failf("the release of the old lease returned: %w", err)
		}
		b.finds(name, "Requeue granted the name again, and only the old lease was released")

		// Somebody waits.
		if !e.caps.Queue {
			a.release(lease)
			return
		}
		waits := b.request(name)
		waits.Queue = true
		e.is(errOf(b.try(waits)), driver.ErrHeld, "a claim on a name that is held was not ErrHeld but")
		_, again, released, err := requeue(lease)
		if released != nil {
			e.failf("Requeue did not release the old claim: %w", released)
		}
		if e.caps.Fair != driver.FairNone && !errors.Is(err, driver.ErrHeld) {
			e.failf("another client waited already, yet the claim of Requeue was not ErrHeld but: %w", orNone(err))
		}
		next := b.takesOf(waits, soon, "it waited first")
		b.release(next)
		a.release(a.takesOf(again, soon, "it waited, and the other has released the name"))

		// The old claim is gone.
		gone := a.request(name)
		old, _ = a.claimOf(gone)
		a.abandon(gone)
		lease, again, _, err = requeue(old)
		a.settle(again, lease, err)
		b.free(name, "everything was released")
	}),
	quick("inspect", "contract: Inspect says who holds a name, with what token and until when, and touches nothing", func(e *Env) {
		p, other := e.party(), e.party()
		inspector := optional[driver.Inspector](other)
		ctx, cancel := e.timed()
		defer cancel()
		name := e.name() + "*?[é/ %"
		st, err := inspector.Inspect(ctx, name)
		e.check(err, "Inspect of a name that nobody ever had")
		if st.Held || st.Name != name {
			e.failf("Inspect of a name that nobody ever had: %+v", st)
		}
		req := p.request(name)
		lease, _ := p.claimOf(req)
		st, err = inspector.Inspect(ctx, name)
		e.check(err, "Inspect")
		switch {
		case !st.Held || st.Foreign || st.Name != name:
			e.failf("Inspect of a name that a lockport client has: %+v", st)
		case st.Owner != req.Owner && !e.namesSessionOf(st.Owner, req.Owner):
			e.failf("Inspect gives the owner as %q; it is %q", st.Owner, req.Owner)
		case st.Token != 0 && st.Token != lease.Grant().Token:
			e.failf("Inspect gives the token as %d; it is %d", st.Token, lease.Grant().Token)
		case !st.Expires.IsZero() && (time.Until(st.Expires) > e.ttl+time.Second || time.Until(st.Expires) < -time.Second):
			e.failf("Inspect says that the lock expires in %v; its TTL is %v", time.Until(st.Expires), e.ttl)
		case !st.Since.IsZero() && (time.Since(st.Since) > e.ttl+callTime || time.Since(st.Since) < -time.Second):
			e.failf("Inspect says that the lock is held for %v", time.Since(st.Since))
		}
		p.release(lease)
		st, err = inspector.Inspect(ctx, name)
		e.check(err, "Inspect")
		if st.Held {
			e.failf("Inspect of a name that was released: %+v", st)
		}
	}),
	full("inspect-does-not-renew", "contract: looking at a lock does not prolong it", func(e *Env) {
		p, other := e.party(), e.party()
		inspector := optional[driver.Inspector](other)
		if e.caps.Ends != driver.EndsTTL {
			e.notRun("claims end with their %v, not with a TTL", e.caps.Ends)
		}
		name := e.name()
		p.claim(name)
		e.eventually(e.takeover(), func() bool {
			ctx, cancel := e.timed()
			defer cancel()
			st, err := inspector.Inspect(ctx, name)
			e.check(err, "Inspect")
			_, err = inspector.List(ctx, name)
			e.check(err, "List")
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
			if len(found) != want {
				e.failf("List of prefix %q gives %d of the names that are held, not %d: %+v", prefix, len(found), want, found)
			}
			for _, st := range found {
				if !st.Held || st.Foreign || len(st.Name) < len(base+prefix) || st.Name[:len(base+prefix)] != base+prefix {
					e.failf("List of prefix %q gives: %+v", prefix, st)
				}
			}
		}
	}),
	full("inspect-foreign", "contract: Inspect says of a holder that is no lockport client that it is foreign", func(e *Env) {
		p := e.party()
		inspector := optional[driver.Inspector](p)
		name := e.name()
		p.free(name, "the name is new")
		e.overwrite(name)
		ctx, cancel := e.timed()
		defer cancel()
		st, err := inspector.Inspect(ctx, name)
		e.check(err, "Inspect")
		if !st.Held || !st.Foreign {
			e.failf("Inspect of a name that somebody else's value is on: %+v", st)
		}
	}).needing(NeedOverwrite),
	quick("check", "contract: Check of a server that is well returns no error, and notices that say what to do, and touches no lock", func(e *Env) {
		p, other := e.party(), e.party()
		checker := optional[driver.Checker](p)
		name := e.name()
		lease := p.claim(name)
		ctx, cancel := e.timed()
		defer cancel()
		notices, err := checker.Check(ctx)
		e.check(err, "Check")
		for _, n := range notices {
			if n.ID == "" || n.Text == "" || n.Remedy == "" && !n.Unknown {
				e.failf("a notice lacks its ID, text or remedy: %+v", n)
			}
			e.noPassword(errors.New(n.Text + n.Remedy))
		}
		other.finds(name, "its holder has not released it")
		p.release(lease)
		other.free(name, "it was released")
	}),
	full("check-silent-server", "contract: Check of a server that is silent returns soon after its context's end and is ErrUnavailable", func(e *Env) {
		connected, fresh := e.party(), e.party()
		connected.free(e.name(), "the name is new")
		e.freeze()
		for _, p := range []*party{connected, fresh} {
			checker := optional[driver.Checker](p)
			err := e.endsInTime("Check", func(ctx context.Context) error { _, err := checker.Check(ctx); return err })
			e.is(err, driver.ErrUnavailable, "Check returned")
			e.noPassword(err)
		}
	}).needing(NeedFreeze),
	full("check-server-gone", "P10 errors: Check of a server that is not there is ErrUnavailable, in time, in one line without the password", func(e *Env) {
		checker := optional[driver.Checker](e.party())
		e.sever()
		ctx, cancel := e.timed()
		defer cancel()
		_, err := checker.Check(ctx)
		e.is(err, driver.ErrUnavailable, "Check returned")
		e.noPassword(err)
	}).needing(NeedSever),
)

// renewedStay renews claims of p for two TTLs and looks each time whether other gets them while they are valid. false: the machine stalled for so long that
// they ran out, which says nothing.
func renewedStay(e *Env, p, other *party, batch driver.BatchRenewer) bool {
	names := []string{e.name(), e.name(), e.name()}
	var leases []driver.Lease
	var first time.Time // the earliest end
	for i, name := range names {
		leases = append(leases, p.claim(name))
		until := leases[i].Grant().Until
		if until.IsZero() {
			e.notRun("claims have no end of their own, so they are not renewed")
		}
		if i == 0 || until.Before(first) {
			first = until
		}
	}
	for end := time.Now().Add(2 * e.ttl); time.Now().Before(end); {
		e.sleep(e.ttl / 4)
		ctx, cancel := e.timed()
		results := make([]driver.Renewal, len(leases))
		began := time.Now()
		batch.RenewBatch(ctx, leases, results)
		cancel()
		if !time.Now().Before(first) {
			return false
		}
		for i, r := range results {
			e.check(r.Err, "a renewal in time")
			if !r.Until.After(began) {
				e.failf("a renewal moved the end to %v before it was sent", began.Sub(r.Until))
			}
			if i == 0 || r.Until.Before(first) {
				first = r.Until
			}
			lease, err := other.try(other.request(names[i]))
			switch late := !time.Now().Before(r.Until); {
			case late:
				return false
			case err == nil:
				e.failf("the holder renews its claim in time, each time with success, yet another claim was granted (token %d)", lease.Grant().Token)
			case !errors.Is(err, driver.ErrHeld):
				e.failf("the holder renews its claim in time, each time with success, so another claim must be ErrHeld; it was: %w", err)
			}
		}
	}
	return true
}

// namesSessionOf says whether shown, from Inspect, stands for the session of owner's claim. A server that knows no owner ids shows the session, "session-" and
// its number, in the place of the random digits, and then the beginning of owner's client part. Owner ids are hexadecimal, so none is mistaken for a session.
func (e *Env) namesSessionOf(shown, owner string) bool {
	client := driver.OwnerClient(shown)
	return e.caps.Ends == driver.EndsSession && strings.HasPrefix(shown, "session-") && client != "" && strings.HasPrefix(driver.OwnerClient(owner), client)
}
