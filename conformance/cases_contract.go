package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// contractCases test what a driver returns against the contract of package driver.
var contractCases = group("contract",
	quick("grant", "contract: a grant has a token exactly if Capabilities state tokens, and a validity no longer than the TTL", func(e *Env) {
		sent := time.Now()
		_, _, _, lease := e.held()
		back, g := time.Now(), lease.Grant()
		e.require(g == lease.Grant(), "Grant returned %+v, then %+v", g, lease.Grant())
		if e.caps.Token == driver.TokenNone {
			e.require(g.Token == 0, "Capabilities.Token is TokenNone, but the token is %d, not 0", g.Token)
		} else {
			e.require(g.Token >= 1 && g.Token <= driver.MaxToken, "the token is %d; it must be from 1 to 2^53-1", g.Token)
		}
		if g.Until.IsZero() {
			e.require(e.caps.Ends != driver.EndsTTL, "Capabilities.Ends is EndsTTL, but Until is zero")
			return
		}
		e.require(e.caps.Ends != driver.EndsProcess, "Capabilities.Ends is EndsProcess, but Until is %v", g.Until)
		e.require(strings.Contains(g.Until.String(), " m="), "Until has no monotonic clock reading: derive it from time.Now by Add")
		left := g.Until.Sub(back)
		e.require(left > 0, "Until was %v before TryAcquire returned", -left)
		// e.ttl is rounded up to the server's grain already.
		e.require(left <= e.ttl, "after the reply the validity left, %v, exceeds the TTL %v (the request took %v)", left, e.ttl, back.Sub(sent))
	}),
	full("grant-counts-from-sending",
		"contract, P3a silence: Until counts from before the request that set or confirmed the expiry was sent, not from its reply", func(e *Env) {
			p, name := e.party().connected(), e.name()
			req, lease := p.request(name), driver.Lease(nil)
			granted := func(by string, claim func() (driver.Lease, error)) {
				e.countsFromSending("the grant of "+by, func() (time.Time, error) {
					next, err := claim()
					e.check(err, "%s", by)
					lease = next
					return lease.Grant().Until, nil
				})
			}
			granted("TryAcquire", func() (driver.Lease, error) { return p.try(req) })
			if _, ok := driver.As[driver.Requeuer](p.Backend); ok {
				granted("Requeue", func() (next driver.Lease, err error) {
					next, req, _, err = p.requeue(name, lease)
					return next, err
				})
			}
			if e.caps.Detach {
				p.detach(lease)
				granted("Attach", func() (driver.Lease, error) { return p.attach(p.request(name), req.Owner, lease) })
			}
		}, "Delay"),
	full("renewal-counts-from-sending", "contract, P3a silence: a renewal extends the validity by the TTL from before it was sent, not from its reply",
		func(e *Env) {
			p, _, _, lease := e.held()
			e.needsRenewal(lease)
			e.check(errOf(p.renew(lease)), "the renewal of a held claim") // p is connected now
			e.countsFromSending("the renewal", func() (time.Time, error) { return p.renew(lease) })
		}, "Delay"),
	quick("renewal",
		"contract: a renewal moves Until forward, to the TTL at most; RenewBatch returns for each of many leases, at its index, what Renew would", func(e *Env) {
			p, other, n := e.party(), e.party(), 30
			if _, batches := driver.As[driver.BatchRenewer](p.Backend); batches {
				n = 300
			}
			p.renewAll(nil)
			leases, ttl := make([]driver.Lease, n), p.patientRequest("").TTL
			ends := make([]time.Time, n)
			for i := range leases {
				req := p.patientRequest(e.name()) // making all claims takes time
				leases[i] = p.claimAs(req)
				e.needsRenewal(leases[i])
				ends[i] = leases[i].Grant().Until
				if i%10 == 3 || i%10 == 7 {
					p.abandon(req)
				}
				if i%10 == 7 {
					defer other.tryRelease(other.claim(req.Name))
				}
			}
			for range 3 {
				sent := time.Now()
				for i, r := range p.renewAll(leases) {
					if i%10 == 3 || i%10 == 7 {
						e.require(errors.Is(r.Err, driver.ErrLost), "result %d is for a lost claim, but it is not ErrLost but: %w", i, r.Err)
						continue
					}
					e.check(r.Err, "result %d is for a held claim, but its error is", i)
					e.require(!r.Until.Before(ends[i]) && r.Until.After(sent),
						"result %d: the renewal moved Until by %v, to %v after it was sent", i, r.Until.Sub(ends[i]), r.Until.Sub(sent))
					e.require(time.Until(r.Until) <= ttl, "result %d: the validity left, %v, is longer than the TTL %v", i, time.Until(r.Until), ttl)
					ends[i] = r.Until
				}
			}
		}),
	quick("held", "contract, P10 errors: a claim on a held name returns ErrHeld, without another attempt; its ExpiresIn and Holder, if set, are true", func(e *Env) {
		a, b, name := e.two()
		req, rival := a.request(name), b.request(name)
		req.TTL, rival.TTL = e.atLeast(e.ttl+489*time.Millisecond), e.atLeast(3*e.ttl) // ExpiresIn is about the holder's
		token := a.claimAs(req).Grant().Token
		err := errOf(b.try(rival))
		e.is(err, "a second claim was not ErrHeld but", driver.ErrHeld)
		if held, ok := errors.AsType[*driver.HeldError](err); ok {
			e.require(held.ExpiresIn >= 0 && held.ExpiresIn <= req.TTL && held.Poll >= 0, "HeldError has ExpiresIn %v and Poll %v, but the holder's TTL is %v",
				held.ExpiresIn, held.Poll, req.TTL)
			h := held.Holder // its owner may lack what is not its client
			e.require(h.Owner == "" || strings.HasSuffix(h.Owner, driver.OwnerClient(req.Owner)) && !h.Foreign && (h.Token == 0 || h.Token == token),
				"HeldError.Holder is %q (Foreign: %t) with token %d, but the holder is %q with token %d", h.Owner, h.Foreign, h.Token, req.Owner, token)
		}
		fastest := func(name string) time.Duration { // of three claims
			least := callTime
			for range 3 {
				start := time.Now()
				lease, err := b.try(b.request(name))
				least = min(least, time.Since(start))
				if err == nil {
					b.release(lease)
				}
			}
			return least
		}
		held, free := fastest(name), fastest(e.name())
		e.require(held <= 4*free+50*time.Millisecond, "a claim took %v on a free name, and %v on a held one: it must make one attempt, and not wait, unless %w",
			free, held, errSlow)
	}),
	quick("same-owner", "contract: TryAcquire with the owner of a granted claim returns that claim again or ErrHeld; it never grants twice",
		sole.grantedOnce),
	full("same-owner-later", "contract, P3a silence: if TryAcquire with the owner of a granted claim returns a Lease again, the server keeps the claim until that Lease's Until",
		func(e *Env) {
			a, b, name := e.two()
			req := a.request(name)
			a.claimAs(req)
			e.sleep(e.ttl / 2)
			again, err := a.try(req)
			e.applies(err == nil, "a repeated claim returns: %v", err)
			b.release(b.afterExpiry(again, again.Grant().Until, name))
		}),
	quick("concurrent-calls", "contract: all methods may be called concurrently, also for the same name with different owners", func(e *Env) {
		a, b, name := e.two()
		for range 20 {
			e.storm(16, func(ctx context.Context, i int) error {
				p := []*party{a, b}[i%2]
				req := p.request(name)
				lease, err := p.TryAcquire(ctx, req)
				switch {
				case errors.Is(err, driver.ErrHeld), errors.Is(err, driver.ErrUnknown), err == nil && i%3 == 0: // unknown: the machine stalled
					p.abandon(req)
				case err != nil:
					return fmt.Errorf("a claim must be granted or return ErrHeld; it returned: %w", err)
				default:
					if err = lease.Release(ctx); class(err) == driver.ErrUnknown {
						p.abandon(req)
					} else if err != nil {
						return fmt.Errorf("the release of a held claim returned: %w", err)
					}
				}
				return nil
			})
		}
		a.wantFree(name, "all claims were released or abandoned")
	}),
	quick("limits", "contract: owner ids up to MaxOwnerLength are accepted and compared to the last byte", func(e *Env) {
		p, name := e.party(), e.name()
		req := p.request(name)
		req.Owner += strings.Repeat("~", driver.MaxOwnerLength-len(req.Owner))
		lease, other := p.claimAs(req), req
		other.Owner = req.Owner[:len(req.Owner)-1] + "!"
		e.is(errOf(p.try(other)), "a claim whose owner id differs in its last byte was not ErrHeld but", driver.ErrHeld)
		p.abandon(other)
		p.wantHeld(name, "the holder has neither released nor lost the name")
		p.release(lease)
	}),
	quick("closed", "contract: when a backend is closed, its claims end as if its process had died; other backends are not affected", func(e *Env) {
		const why = "the claim of a closed backend ends as if its process had died"
		a, b, mine, closed := e.held()
		theirs := e.name()
		lease := b.claim(theirs)
		stop := b.keepAlive(lease)
		next := func() driver.Lease { return b.take(mine, e.takeover(), why) }
		if _, ok := driver.As[driver.Waiter](b.Backend); ok {
			waiting := b.beginWait(mine)
			waiting.notYet(10*time.Millisecond, "the name is held")
			next = func() driver.Lease { return waiting.granted(e.takeover(), why) }
		}
		e.check(a.Close(), "Close")
		e.party().wantHeld(theirs, "the other backend still holds it")
		held := next()
		early := time.Until(closed.Grant().Until)
		e.require(e.caps.Ends != driver.EndsTTL || early <= 0, "P3a silence: the name was granted again %v before the first holder's validity ended", early)
		stop() // a claim is renewed by one call at a time
		e.check(b.renewIfNeeded(lease), "Close of one backend ended another's claim")
		waiter := e.party()
		_, _ = waiter.try(waiter.queueing(mine))
		e.check(waiter.Close(), "Close of a waiter")
		b.release(held)
		e.party().wantFreeIn(mine, e.takeover(), "the holder has released the name, and its waiter's backend was closed")
	}),
)

// countsFromSending checks the validity in a reply that was delayed by a known time: the request that set the expiry was sent at
// least that long ago.
func (e *Env) countsFromSending(what string, call func() (until time.Time, err error)) {
	late := min(e.ttl, callTime) / 10 // far below the time limit of a request, which can be a quarter of the TTL
	e.delay(late)
	sent := time.Now()
	until, err := call()
	back := time.Now()
	e.check(err, "%s", what)
	e.applies(!until.IsZero(), "claims do not expire")
	left := until.Sub(back)
	e.require(left <= e.ttl-late || back.Sub(sent) >= late, "%s took less than %v, the delay of replies: it waited for none, or Target is not behind the proxy", what, late)
	e.require(left <= e.ttl-late, "the reply to %s came %v late, so at most %v of the TTL %v can be left, but Until leaves %v",
		what, late, e.ttl-late, e.ttl, left)
}

// grantedOnce claims twice with one owner id.
func (j joint) grantedOnce(e *Env) {
	p, other, name := e.two()
	req := p.in(j.mode).request(name)
	first := p.claimAs(req)
	second, err := p.try(req)
	e.is(err, "the second TryAcquire must return the claim or ErrHeld; it returned", nil, driver.ErrHeld)
	if err == nil && second.Grant().Token != first.Grant().Token {
		e.failf("the second TryAcquire granted the name again: token %d after %d", second.Grant().Token, first.Grant().Token)
	}
	for range three - j.leave {
		e.check(errOf(other.try(other.in(j.mode).request(name))), "the name is held once, by an owner that claimed twice, yet a claim beside it returned")
	}
	e.party().wantHeldAs(p.in(j.rival()).request(name), "the name is held")
	p.release(first) // one release ends the claim, even if it was returned twice
	rival := other.in(j.rival())
	next := rival.claim(name)
	rival.wantHeld(name, "the name is held again")
	rival.release(next)
}
