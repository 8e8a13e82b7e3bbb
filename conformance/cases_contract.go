package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// contractCases hold the form of what a driver returns against the package driver.
var contractCases = group("contract",
	quick("grant", "contract: a grant has a token exactly where Capabilities states tokens, and a validity that the server keeps", func(e *Env) {
		p := e.party()
		name := e.name()
		lease, sent := p.claimOf(p.request(name))
		back := time.Now()
		g := lease.Grant()
		if g != lease.Grant() {
			e.failf("Grant returned %+v, then %+v", g, lease.Grant())
		}
		switch {
		case e.caps.Token == driver.TokenNone && g.Token != 0:
			e.failf("Capabilities.Token is TokenNone, but the token is %d, not 0", g.Token)
		case e.caps.Token != driver.TokenNone && (g.Token < 1 || g.Token > driver.MaxToken):
			e.failf("the token is %d, not from 1 to 2^53-1", g.Token)
		case e.caps.Ends == driver.EndsTTL && g.Until.IsZero():
			e.failf("Capabilities.Ends is EndsTTL, but Until is zero")
		case e.caps.Ends == driver.EndsProcess && !g.Until.IsZero():
			e.failf("Capabilities.Ends is EndsProcess, but Until is %v", g.Until)
		}
		if g.Until.IsZero() {
			return
		}
		if !strings.Contains(g.Until.String(), " m=") {
			e.failf("Until has no monotonic clock reading: use time.Now and Add")
		}
		if !g.Until.After(back) {
			e.failf("Until was %v before TryAcquire returned", back.Sub(g.Until))
		}
		// A TTL that is rounded up to the server's grain is allowed; e.ttl is.
		if longest := g.Until.Sub(back); longest > e.ttl {
			e.failf("the validity left after the reply, %v, is longer than the TTL %v (sent %v before)", longest, e.ttl, back.Sub(sent))
		}
	}),
	full("grant-counts-from-sending",
		"contract, P3a silence: Until counts from before the request was sent that set or confirmed the expiry, not from its reply", func(e *Env) {
			p := e.party()
			p.free(e.name(), "the name is new") // the connection is there now
			late := e.ttl / 6
			e.delay(late)
			lease, _ := p.claimOf(p.request(e.name()))
			e.countsFromSending("the grant", lease.Grant().Until, late)
		}).needing(NeedDelay),
	full("renewal-counts-from-sending", "contract, P3a silence: a renewal prolongs the validity to the TTL from before it was sent, not from its reply", func(e *Env) {
		p := e.party()
		lease := p.claim(e.name())
		if lease.Grant().Until.IsZero() {
			e.notRun("claims have no end of their own, so they are not renewed")
		}
		_, err := p.renews(lease) // its connection is there now
		e.check(err, "renewal")
		late := e.ttl / 6
		e.delay(late)
		until, err := p.renews(lease)
		e.check(err, "renewal")
		e.countsFromSending("the renewal", until, late)
	}).needing(NeedDelay),
	quick("renewal", "contract: Renew returns a validity that is never before an earlier one and never longer than the TTL", func(e *Env) {
		p := e.party()
		lease := p.claim(e.name())
		before := lease.Grant().Until
		if before.IsZero() {
			e.notRun("claims have no end of their own, so they are not renewed")
		}
		for range 5 {
			until, err := p.renews(lease)
			e.check(err, "renewal")
			if until.Before(before) {
				e.failf("a renewal moved Until back by %v", before.Sub(until))
			}
			if left := time.Until(until); left > e.ttl {
				e.failf("the validity left after a renewal, %v, is longer than the TTL %v", left, e.ttl)
			}
			before = until
		}
	}),
	quick("held", "contract, P10 errors: a claim on a name that somebody else has is ErrHeld, and ExpiresIn no longer than the TTL", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		a.claim(name)
		_, err := b.try(b.request(name))
		e.is(err, driver.ErrHeld, "a second claim was not ErrHeld but")
		var held *driver.HeldError
		if errors.As(err, &held) && (held.ExpiresIn < 0 || held.ExpiresIn > e.ttl || held.Poll < 0) {
			e.failf("HeldError is %+v, where the TTL is %v", *held, e.ttl)
		}
	}),
	quick("release", "contract: a name is free as soon as its claim was released, for every client", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		for range 5 {
			a.release(a.claim(name))
			b.release(b.claim(name))
		}
	}),
	quick("same-owner", "contract: TryAcquire with the owner of a claim that was granted returns that claim again or ErrHeld; it never grants twice", sameOwner),
	quick("concurrent-calls", "contract: all methods may be called at once, for the same name with different owners", func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		e.storm(16, 20, func(ctx context.Context, i int) error {
			p := []*party{a, b}[i%2]
			req := p.request(name)
			lease, err := p.TryAcquire(ctx, req)
			if errors.Is(err, driver.ErrHeld) {
				return p.Abandon(ctx, req)
			}
			if err != nil {
				return err
			}
			if i%3 == 0 {
				return p.Abandon(ctx, req)
			}
			return lease.Release(ctx)
		})
		a.free(name, "everybody has released or abandoned the name")
	}),
	quick("limits", "contract: every owner id up to MaxOwnerLength is accepted, and told from others that differ in the last byte", func(e *Env) {
		p := e.party()
		name := e.name()
		req := p.request(name)
		req.Owner += strings.Repeat("~", driver.MaxOwnerLength-len(req.Owner))
		lease, _ := p.claimOf(req)
		other := req
		other.Owner = req.Owner[:len(req.Owner)-1] + "!"
		e.is(errOf(p.try(other)), driver.ErrHeld, "a claim by an owner id that differs in its last byte was not ErrHeld but")
		p.abandon(other)
		p.finds(name, "the holder has neither released nor lost the name")
		p.release(lease)
	}),
	quick("closed", "contract: after Close of a backend its claims end as if its process had died, and its other clients go on", func(e *Env) {
		a, b := e.party(), e.party()
		mine, theirs := e.name(), e.name()
		a.claim(mine)
		lease := b.claim(theirs)
		e.check(a.Close(), "Close")
		if _, err := b.renewsIfItMust(lease); err != nil {
			e.failf("Close of one backend broke another's claim: %w", err)
		}
		e.party().finds(theirs, "the other backend still holds it")
		stop := b.keepAlive(lease)
		defer stop()
		b.takes(mine, e.takeover(), "the claim of a closed backend ends like that of a dead process")
	}),
)

// countsFromSending checks until, which came with a reply that came late by late at the least: whatever request set the
// expiry was sent that long ago.
func (e *Env) countsFromSending(what string, until time.Time, late time.Duration) {
	back := time.Now()
	if until.IsZero() {
		e.notRun("claims have no end of their own")
	}
	if left := until.Sub(back); left > e.ttl-late {
		e.failf("the reply to %s came %v late, so that at most %v of the TTL %v can be left; Until says %v",
			what, late, e.ttl-late, e.ttl, left)
	}
}

// sameOwner claims twice with one owner id.
func sameOwner(e *Env) {
	p := e.party()
	name := e.name()
	req := p.request(name)
	first, _ := p.claimOf(req)
	second, err := p.try(req)
	if err != nil && !errors.Is(err, driver.ErrHeld) {
		e.failf("the second TryAcquire returned: %w", err)
	}
	if err == nil && second.Grant().Token != first.Grant().Token {
		e.failf("the second TryAcquire granted anew: token %d after %d", second.Grant().Token, first.Grant().Token)
	}
	e.party().finds(name, "the name is held")
	// One release ends it, however often it was granted.
	p.release(first)
	other := e.party()
	next := other.claim(name)
	if second != nil {
		if err := p.releases(second); err != nil && !errors.Is(err, driver.ErrLost) {
			e.failf("the release of the second lease failed: %w", err)
		}
		e.party().finds(name, "the second lease's release came after the next holder's claim")
	}
	other.release(next)
}
