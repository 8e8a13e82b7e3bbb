package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleOwnership = "P4 ownership: a late or repeated release changes nothing of the next holder's claim"

// ownershipCases are about P4, and about what a driver says of a claim that is gone.
var ownershipCases = group("ownership",
	quick("release-twice", ruleOwnership, func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		lease := a.claim(name)
		a.release(lease)
		e.check(a.releases(lease), "the second release of a claim that the first one ended returned")
		next := b.claim(name)
		if err := a.releases(lease); err != nil && !errors.Is(err, driver.ErrLost) {
			e.failf("the third release returned: %w", err)
		}
		e.stillHolds(b, name, next, "the first holder's release came again")
	}),
	quick("release-twice-same-client", ruleOwnership+" (of the same client)", func(e *Env) {
		p := e.party()
		name := e.name()
		lease := p.claim(name)
		p.release(lease)
		next := p.claim(name)
		_ = p.releases(lease)
		e.stillHolds(p, name, next, "the first hold's release came again")
	}),
	quick("abandon-twice", "P4 ownership: an abandoned claim's late release, renewal or second Abandon changes nothing of the next holder's claim", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		req := a.request(name)
		lease, _ := a.claimOf(req)
		a.abandon(req)
		a.abandon(req)
		next := b.claim(name)
		a.abandon(req)
		if _, err := a.renewsIfItMust(lease); err == nil && !lease.Grant().Until.IsZero() {
			e.failf("a renewal of an abandoned claim succeeded while somebody else has the name")
		}
		_ = a.releases(lease)
		e.stillHolds(b, name, next, "the abandoned claim was abandoned again and released")
	}),
	quick("abandon-of-others", "P4 ownership: Abandon ends the claim of its own owner id only", func(e *Env) {
		p := e.party()
		name := e.name()
		lease := p.claim(name)
		p.abandon(p.request(name)) // never made
		other := p.request(name)
		_, _ = p.try(other) // ErrHeld
		p.abandon(other)
		e.stillHolds(p, name, lease, "other claims of the same client were abandoned")
	}),
	full("late-release", ruleOwnership, func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		lease, next := expired(e, a, b, name)
		e.is(a.releases(lease), driver.ErrLost, "the release of a claim that somebody else's has followed was not ErrLost but")
		e.stillHolds(b, name, next, "the earlier holder's release came late")
	}),
	full("late-renewal", "P4 ownership: the renewal of a claim that has expired is ErrLost and changes nothing of the next holder's claim", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		lease, next := expired(e, a, b, name)
		e.is(errOf(a.renews(lease)), driver.ErrLost, "the renewal of a claim that somebody else's has followed was not ErrLost but")
		e.stillHolds(b, name, next, "the earlier holder's renewal came late")
	}),
	full("late-abandon", "P4 ownership: the Abandon of a claim that has expired changes nothing of the next holder's claim", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		req := a.request(name)
		lease, _ := a.claimOf(req)
		next := afterExpiry(e, lease, b, name)
		a.abandon(req)
		e.stillHolds(b, name, next, "the earlier claim was abandoned late")
	}),
	full("slow-release", ruleOwnership+" (the replies to the release come after the TTL: comparing and deleting are one step)", func(e *Env) {
		a, b := e.party(), e.observer()
		name := e.name()
		lease := a.claim(name)
		if e.caps.Ends != driver.EndsTTL {
			e.notRun("claims end with their %v, not with a TTL", e.caps.Ends)
		}
		e.delay(e.ttl + e.ttl/2)
		ctx, cancel := context.WithTimeout(e.ctx, 6*e.ttl)
		defer cancel()
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = lease.Release(ctx)
		}()
		next := b.takes(name, e.takeover(), "the claim was released, or ended with its TTL")
		stop := b.keepAlive(next)
		<-over
		stop()
		e.restore()
		e.stillHolds(b, name, next, "the earlier holder's release took longer than the TTL")
	}).needing(NeedDelay, NeedDirect),
	full("no-resurrection", "contract: a renewal that succeeds keeps the claim: never without the server still having it, nor after its end", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		lease := a.claim(name)
		if e.caps.Ends != driver.EndsTTL {
			e.notRun("claims end with their %v, not with a TTL", e.caps.Ends)
		}
		e.sleep(time.Until(lease.Grant().Until) + e.takeover() - e.ttl)
		until, err := a.renews(lease)
		if err == nil { // it may be that the server had not yet swept it; then it must hold now
			b.finds(name, "a renewal succeeded with "+time.Until(until).String()+" of validity")
			return
		}
		if !errors.Is(err, driver.ErrLost) {
			e.failf("the renewal of a claim that has expired was not ErrLost but: %w", err)
		}
		b.free(name, "the claim has expired, and its renewal was refused")
	}),
	full("renewed-claim-stays", "P1 exclusion: a claim that is renewed stays for as long as it is renewed", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		lease := a.claim(name)
		if lease.Grant().Until.IsZero() {
			e.notRun("claims have no end of their own, so they are not renewed")
		}
		for end := time.Now().Add(3 * e.ttl); time.Now().Before(end); {
			e.sleep(e.ttl / 4)
			if _, err := a.renews(lease); err != nil {
				e.failf("a renewal in time failed: %w", err)
			}
			b.finds(name, "the holder renews its claim in time, each time with success")
		}
		a.release(lease)
	}),
)

// stillHolds checks that lease, of p, is held by it alone, and releases it. after is what happened before.
func (e *Env) stillHolds(p *party, name string, lease driver.Lease, after string) {
	e.party().finds(name, after+", but the next holder has not released the name")
	if _, err := p.renewsIfItMust(lease); err != nil {
		e.failf("%s, and the next holder's renewal failed: %w", after, err)
	}
	if err := p.releases(lease); err != nil {
		e.failf("%s, and the next holder's release failed: %w", after, err)
	}
}

// expired lets a claim of a expire and b follow.
func expired(e *Env, a, b *party, name string) (old, next driver.Lease) {
	old = a.claim(name)
	return old, afterExpiry(e, old, b, name)
}

// afterExpiry has b claim name once lease, which is not renewed, has expired; not before its validity has ended.
func afterExpiry(e *Env, lease driver.Lease, b *party, name string) driver.Lease {
	if e.caps.Ends != driver.EndsTTL {
		e.notRun("claims end with their %v, not with a TTL", e.caps.Ends)
	}
	next := b.takes(name, e.takeover(), "a claim that is not renewed ends with its TTL")
	if early := time.Until(lease.Grant().Until); early > 0 {
		e.failf("P3a silence: the name was granted again %v before the first holder's validity ended", early)
	}
	return next
}
