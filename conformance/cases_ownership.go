package conformance

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleOwnership = "P4 ownership: a late or repeated release does not affect the next holder"

// ownershipCases test P4, and what a driver returns for a lost claim.
var ownershipCases = group("ownership",
	quick("abandon-twice", ruleAbandoned, func(e *Env) { a, b, name := e.two(); a.abandonedTwice(b, name) }),
	quick("abandon-twice-same-client", ruleAbandoned+" (of the same client)", func(e *Env) { p := e.party(); p.abandonedTwice(p, e.name()) }),
	quick("abandon-of-others", "P4 ownership: Abandon ends only the claim of its owner id", func(e *Env) {
		p, _, name, lease := e.held()
		p.abandon(p.request(name)) // never made
		other := p.request(name)
		_, _ = p.try(other) // ErrHeld
		p.abandon(other)
		p.stillHolds(name, lease, "other claims of the same client were abandoned")
	}),
	full("late-release", ruleOwnership,
		late("release", driver.ErrLost, func(a *party, _ driver.Request, lease driver.Lease) error { return a.tryRelease(lease) })),
	full("late-renewal", "P4 ownership: the renewal of an expired claim returns ErrLost and does not affect the next holder",
		late("renewal", driver.ErrLost, func(a *party, _ driver.Request, lease driver.Lease) error { return errOf(a.renew(lease)) })),
	full("late-abandon", "P4 ownership: Abandon of an expired claim does not affect the next holder",
		late("Abandon", nil, func(a *party, req driver.Request, _ driver.Lease) error { a.abandon(req); return nil })),
	full("slow-release", ruleOwnership+" (replies come after the TTL: a release must compare and delete in one step)", func(e *Env) {
		e.needsTTL()
		longest := e.stalls()
		defer longest()
		a, b, name := e.party(), e.observer(), e.name()
		lease := a.claim(name)
		start, delay := time.Now(), e.ttl+e.ttl/2
		e.delay(delay)
		w := e.start("Release", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 6*e.ttl)
			defer cancel()
			return lease.Release(ctx)
		})
		next := b.take(name, e.takeover(), "the claim was released or ended with its TTL")
		stall, took := longest(), time.Duration(0)
		late := func() { <-w.over; took = time.Since(start); e.restore() }
		b.stillHolds(name, next, "the earlier holder's release took longer than the TTL", late)
		if inOneStep := w.err == nil && took < 2*delay; !inOneStep && stall >= e.ttl/8 {
			e.stalled() // the first request may have come after the TTL, or the second one before the next claim
		}
	}, "Delay", "Direct"),
	full("no-resurrection", "contract: a renewal succeeds only if the server still has the claim, which then stays held", func(e *Env) {
		e.needsTTL()
		a, b, name, lease := e.held()
		e.sleep(time.Until(lease.Grant().Until) + e.takeover() - e.ttl)
		until, err := a.renew(lease)
		if err == nil { // the server had not removed the claim yet, so it must hold now
			b.wantHeld(name, "a renewal succeeded with "+time.Until(until).String()+" of validity")
			return
		}
		e.is(err, "the renewal of an expired claim was not ErrLost but", driver.ErrLost)
		b.wantFree(name, "the claim expired, and its renewal returned ErrLost")
	}),
)

const ruleAbandoned = "P4 ownership: a late release, renewal or second Abandon of an abandoned claim does not affect the next holder"

// abandonedTwice abandons a claim, and repeats what the client may still do with it while b holds the name.
func (p *party) abandonedTwice(b *party, name string) {
	req := p.request(name)
	lease := p.claimAs(req)
	p.abandon(req)
	p.abandon(req)
	next := b.claim(name)
	p.abandon(req)
	p.e.require(p.renewIfNeeded(lease) != nil || lease.Grant().Until.IsZero(),
		"the renewal of an abandoned claim succeeded while another client holds the name")
	_ = p.tryRelease(lease)
	b.stillHolds(name, next, "the abandoned claim was abandoned again and released")
}

// late makes a case in which a client calls call for an expired claim while another client holds the name. call must return want.
func late(what string, want error, call func(a *party, req driver.Request, lease driver.Lease) error) func(*Env) {
	return func(e *Env) {
		e.needsTTL()
		a, b, name := e.two()
		req := a.request(name)
		lease := a.claimAs(req)
		next := b.afterExpiry(lease, lease.Grant().Until, name)
		e.is(call(a, req, lease), "another client holds the name, but the "+what+" of the expired claim was not ErrLost but", want)
		b.stillHolds(name, next, "the earlier holder's "+what+" came late")
	}
}
