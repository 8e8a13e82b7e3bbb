package conformance

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// unknownCases test requests whose outcome the driver cannot know, and unreachable servers.
var unknownCases = group("unknown",
	full("acquire-reply-lost", "P6 cancellation: after a lost reply a claim is unknown; once Abandon has returned nil, it is not held and never will be",
		func(e *Env) { e.party().claimant(mode{}).replyToClaimLost() }, "DropReply"),
	full("acquire-reply-lost-orphan",
		"P6 cancellation: a claim whose reply was lost, and that is never abandoned, leaves nothing for longer than the TTL", func(e *Env) {
			a, b, name := e.party().connected(), e.party().connected(), e.name()
			var err error
			e.replyLost(OpAcquire, func() { _, err = a.try(a.request(name)) })
			e.applies(err != nil || e.caps.Ends == driver.EndsTTL, "the client library repeated the request, and the claim ends with its %v", e.caps.Ends)
			b.wantFreeIn(name, e.takeover(), "an orphaned claim ends with its TTL")
			e.leftovers("an orphaned claim ends with its TTL")
		}, "DropReply"),
	full("acquire-reply-lost-kept",
		"P1 exclusion: a claim whose reply was lost, and that is granted when it is repeated, stays held while it is renewed",
		func(e *Env) {
			a, b, name := e.party().connected(), e.party().connected(), e.name()
			req := a.request(name)
			var lease driver.Lease
			var err error
			e.replyLost(OpAcquire, func() { lease, err = a.try(req) })
			known := err == nil || poll(e.ctx, soon, func() bool {
				lease, err = a.try(req)
				return err == nil || errors.Is(err, driver.ErrHeld)
			})
			// A driver may keep returning ErrUnknown. Then the claim is abandoned.
			e.require(known || errors.Is(err, driver.ErrUnknown),
				"the reply to a claim was lost; repeated for %v, it must be granted or return ErrHeld or ErrUnknown, but it returned: %w", soon, err)
			if err != nil {
				a.abandon(req)
				e.notRun("a claim whose reply was lost is not granted when it is repeated")
			}
			release := a.keep(lease)
			e.during(2*e.ttl+e.ttl/2, func() {
				b.wantHeld(name, "the claim was granted after its first reply was lost, and is renewed")
			})
			release()
		}, "DropReply"),
	full("release-reply-lost", "P4 ownership: a release whose reply was lost can be repeated, and does not affect the next holder",
		func(e *Env) { repeatsLostRelease(e.party(), e.party()) }, "DropReply"),
	full("release-reply-lost-same-client",
		"P4 ownership: a release whose reply was lost can be repeated, and does not affect the same client's next claim",
		func(e *Env) { p := e.party(); repeatsLostRelease(p, p) }, "DropReply"),
	full("renewal-reply-lost", "contract: a renewal whose reply was lost returns ErrUnknown, not ErrLost, and the next renewal succeeds", func(e *Env) {
		a, b, name := e.party(), e.party().connected(), e.name()
		lease := a.claim(name)
		e.needsRenewal(lease)
		e.replyLost(OpRenew, func() {
			err := errOf(a.renew(lease))
			e.require(!errors.Is(err, driver.ErrLost), "the reply to a renewal was lost, so its outcome is unknown; it returned: %w", err)
		})
		// A claim that ends with its connection may be lost now. Then the renewal must say so.
		var err error
		e.eventually(e.ttl/2, func() bool {
			err = errOf(a.renew(lease))
			return err == nil || errors.Is(err, driver.ErrLost)
		}, "a renewal after one whose reply was lost succeeds or returns ErrLost")
		if err != nil && e.caps.Ends != driver.EndsTTL {
			return
		}
		e.check(err, "the claim is held, yet the next renewal returned")
		b.wantHeld(name, "the claim was renewed")
		a.release(lease)
	}, "DropReply"),
	full("cut-after-each-request",
		ruleEffects+" (connection cut after each request)", func(e *Env) {
			cutAfterEachRequest(e, false, func() *claimant { return e.party().claimant(mode{}) })
		}, "CutAfter", "Direct").within(time.Minute),
	full("cut-after-each-request-orphan",
		"P5 crash: a claim that was cut off after any of its requests, and is never abandoned, leaves nothing for longer than the TTL", func(e *Env) {
			other := e.observer()
			var names []string
			e.afterEachRequest(8, func(_ int, arm func() <-chan struct{}, over func()) {
				a, name := e.party(), e.name()
				names = append(names, name)
				arm()
				_, _ = a.try(a.request(name))
				over()
				e.check(a.Close(), "Close")
			})
			for i, name := range names {
				why := fmt.Sprintf("a claim was cut off after request %d, its backend was closed, and its TTL has passed", i+1)
				other.wantFreeIn(name, e.takeover(), why)
			}
			e.leftovers("all claims have ended")
		}, "CutAfter", "Direct"),
	full("release-cut-after-each-request",
		"P4 ownership: a release that was cut off frees the name when it is repeated or abandoned, and does not affect the next holder", func(e *Env) {
			other, name := e.observer(), e.name()
			e.afterEachRequest(4, func(n int, arm func() <-chan struct{}, over func()) {
				a := e.party()
				req := a.request(name)
				lease := a.claimAs(req)
				arm()
				err := a.tryRelease(lease)
				over()
				if err != nil && !errors.Is(err, driver.ErrLost) {
					a.abandon(req)
				}
				next := other.take(name, soon, fmt.Sprintf("the release (cut off after request %d) returned %v, and "+
					"the claim was abandoned if it may still be held", n, err))
				_ = a.tryRelease(lease)
				other.stillHolds(name, next, "the release that was cut off was repeated")
				e.check(a.Close(), "Close")
			})
		}, "CutAfter", "Direct"),
	full("many-cut-off", ruleEffects+" (many claims at once, connections cut)",
		func(e *Env) { e.party().claimant(mode{}).cutTogether() }, "Delay", "Cut", "Direct"),
	full("server-gone",
		"P10 errors: on an unreachable server, calls return in time and without the password: TryAcquire ErrUnavailable or ErrUnknown, Check ErrUnavailable; "+
			"when the server is back, locks work again", outOfReach((*Env).sever), "Sever"),
)

// repeatsLostRelease drops the reply to a's release, has next claim the name, and repeats the release.
func repeatsLostRelease(a, next *party) {
	e, name := next.connected().e, next.e.name()
	req := a.request(name)
	lease := a.claimAs(req)
	var first error
	e.replyLost(OpRelease, func() { first = a.tryRelease(lease) })
	claim := next.take(name, e.takeover(), "the release was carried out")
	second := a.tryRelease(lease)
	if first != nil && second != nil && !errors.Is(second, driver.ErrLost) {
		a.abandon(req)
	}
	next.stillHolds(name, claim, "the release whose reply was lost was repeated")
}

// noPassword checks that err does not show the password of the target URL, if it has one.
func (e *Env) noPassword(err error) {
	u, bad := url.Parse(e.cfg.Target)
	if bad != nil || u.User == nil || err == nil {
		return
	}
	password, _ := u.User.Password()
	e.require(password == "" || !strings.Contains(err.Error(), password),
		"an error shows the password: %s", strings.ReplaceAll(err.Error(), password, "PASSWORD"))
}
