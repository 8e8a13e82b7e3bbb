package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleOwnership = "P4 ownership: a late or repeated release changes nothing of the next holder's claim"

// ownershipCases are about P4, and about what a driver says of a claim that is gone.
var ownershipCases = group("ownership",
	quick("abandon-twice", ruleAbandoned, func(e *Env) { a, b, name := e.two(); a.abandonedTwice(b, name) }),
	quick("abandon-twice-same-client", ruleAbandoned+" (of the same client)", func(e *Env) { p := e.party(); p.abandonedTwice(p, e.name()) }),
	quick("abandon-of-others", "P4 ownership: Abandon ends the claim of its own owner id only", func(e *Env) {
		p, _, name, lease := e.held()
		p.abandon(p.request(name)) // never made
		other := p.request(name)
		_, _ = p.try(other) // ErrHeld
		p.abandon(other)
		p.stillHolds(name, lease, "other claims of the same client were abandoned")
	}),
	full("late-release", ruleOwnership,
		late("release", driver.ErrLost, func(a *party, _ driver.Request, lease driver.Lease) error { return a.releases(lease) })),
	full("late-renewal", "P4 ownership: the renewal of a claim that has expired is ErrLost and changes nothing of the next holder's claim",
		late("renewal", driver.ErrLost, func(a *party, _ driver.Request, lease driver.Lease) error { return errOf(a.renews(lease)) })),
	full("late-abandon", "P4 ownership: the Abandon of a claim that has expired changes nothing of the next holder's claim",
		late("Abandon", nil, func(a *party, req driver.Request, _ driver.Lease) error { a.abandon(req); return nil })),
	full("slow-release", ruleOwnership+" (the replies to the release come after the TTL: comparing and deleting are one step)", func(e *Env) {
		e.needsTTL()
		a, b, name := e.party(), e.observer(), e.name()
		lease := a.claim(name)
		e.delay(e.ttl + e.ttl/2)
		w := begin(e, "Release", func(ctx context.Context) (struct{}, error) {
			ctx, cancel := context.WithTimeout(ctx, 6*e.ttl)
			defer cancel()
			return struct{}{}, lease.Release(ctx)
		})
		next := b.takes(name, e.takeover(), "the claim was released, or ended with its TTL")
		stop := b.keepAlive(next)
		<-w.over
		stop()
		e.restore()
		b.stillHolds(name, next, "the earlier holder's release took longer than the TTL")
	}, "Delay", "Direct"),
	full("no-resurrection", "contract: a renewal that succeeds keeps the claim: never without the server still having it, nor after its end", func(e *Env) {
		e.needsTTL()
		a, b, name, lease := e.held()
		e.sleep(time.Until(lease.Grant().Until) + e.takeover() - e.ttl)
		until, err := a.renews(lease)
		if err == nil { // it may be that the server had not yet swept it; then it must hold now
			b.finds(name, "a renewal succeeded with "+time.Until(until).String()+" of validity")
			return
		}
		e.is(err, "the renewal of a claim that has expired was not ErrLost but", driver.ErrLost)
		b.free(name, "the claim has expired, and its renewal was refused")
	}),
	full("renewed-claim-stays", "P1 exclusion: a claim that is renewed stays for as long as it is renewed", func(e *Env) {
		p := e.party()
		p.renewedStay(func(_ context.Context, leases []driver.Lease, results []driver.Renewal) {
			for i, lease := range leases {
				results[i].Until, results[i].Err = p.renews(lease)
			}
		})
	}),
)

const ruleAbandoned = "P4 ownership: an abandoned claim's late release, renewal or second Abandon changes nothing of the next holder's claim"

// abandonedTwice abandons a claim, and does to it all that the client may still do, while it is b's turn.
func (p *party) abandonedTwice(b *party, name string) {
	req := p.request(name)
	lease := p.claimOf(req)
	p.abandon(req)
	p.abandon(req)
	next := b.claim(name)
	p.abandon(req)
	p.e.require(p.renewsIfItMust(lease) != nil || lease.Grant().Until.IsZero(),
		"a renewal of an abandoned claim succeeded while somebody else has the name")
	_ = p.releases(lease)
	b.stillHolds(name, next, "the abandoned claim was abandoned again and released")
}

// renewedStay renews claims for three TTLs, and looks each time whether another client gets them while they are valid. A machine that stalls for so long that
// they run out says nothing: then it begins anew.
func (p *party) renewedStay(renew func(context.Context, []driver.Lease, []driver.Renewal)) {
	const why = "the holder renews its claim in time, each time with success"
	e, other := p.e, p.e.party()
	e.unlessStalled(func() (ran bool) {
		names := []string{e.name(), e.name(), e.name()}
		leases, ends := make([]driver.Lease, len(names)), make([]time.Time, len(names))
		for i, name := range names {
			leases[i] = p.claim(name)
			e.needsRenewal(leases[i])
			ends[i] = leases[i].Grant().Until
		}
		tooLate := func() bool { return !time.Now().Before(slices.MinFunc(ends, time.Time.Compare)) }
		for end := time.Now().Add(3 * e.ttl); time.Now().Before(end); {
			e.sleep(e.ttl / 4)
			results, began := make([]driver.Renewal, len(leases)), time.Now()
			ctx, cancel := e.timed()
			renew(ctx, leases, results)
			cancel()
			if tooLate() {
				return false
			}
			for i, r := range results {
				e.check(r.Err, "a renewal in time")
				e.require(r.Until.After(began), "a renewal moved the end to %v before it was sent", began.Sub(r.Until))
				ends[i] = r.Until
			}
			for _, name := range names {
				lease, err := other.try(other.request(name))
				if tooLate() {
					return false
				}
				e.refused(lease, err, why)
			}
		}
		for _, lease := range leases {
			p.release(lease)
		}
		return true
	})
}

// late is a case in which one client makes a call for a claim that has expired, and that another client's has followed. The call must return want.
func late(what string, want error, call func(a *party, req driver.Request, lease driver.Lease) error) func(*Env) {
	return func(e *Env) {
		e.needsTTL()
		a, b, name := e.two()
		req := a.request(name)
		lease := a.claimOf(req)
		next := b.afterExpiry(lease, lease.Grant().Until, name)
		e.is(call(a, req, lease), "the "+what+" of a claim that somebody else's has followed was not ErrLost but", want)
		b.stillHolds(name, next, "the earlier holder's "+what+" came late")
	}
}
