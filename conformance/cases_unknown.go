package conformance

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// unknownCases are about requests whose outcome the driver cannot know, and servers that are not there.
var unknownCases = group("unknown",
	full("acquire-reply-lost", "P6 cancellation: a claim whose reply was lost is unknown, and once Abandon has returned nil it is not held and never will be",
		func(e *Env) { e.party().ask().replyToClaimLost(e.party()) }, "DropReply"),
	full("acquire-reply-lost-orphan",
		"P6 cancellation: a claim whose reply was lost, and that nobody ever abandons, leaves nothing for longer than the TTL", func(e *Env) {
			a, b, name := e.party().connected(), e.party().connected(), e.name()
			var err error
			e.replyLost(OpAcquire, func() { _, err = a.try(a.request(name)) })
			if err == nil && e.caps.Ends != driver.EndsTTL {
				e.notRun("the client library asked again, and the claim ends with its %v", e.caps.Ends)
			}
			b.frees(name, e.takeover(), "an orphaned claim ends with its TTL")
			e.leftovers("an orphaned claim ends with its TTL")
		}, "DropReply"),
	full("acquire-reply-lost-kept",
		"P1 exclusion: a claim whose reply was lost, and that is granted when it is asked for again, stays for as long as it is renewed",
		keptAfterLostReply, "DropReply"),
	full("release-reply-lost", "P4 ownership: a release whose reply was lost can be repeated, and changes nothing of the next holder's claim",
		func(e *Env) { repeatsLostRelease(e.party(), e.party()) }, "DropReply"),
	full("release-reply-lost-same-client",
		"P4 ownership: a release whose reply was lost can be repeated, and changes nothing of the same client's next claim",
		func(e *Env) { p := e.party(); repeatsLostRelease(p, p) }, "DropReply"),
	full("renewal-reply-lost", "contract: a renewal whose reply was lost is unknown, never ErrLost: the claim is there, and the next renewal says so", func(e *Env) {
		a, b, name := e.party(), e.party().connected(), e.name()
		lease := a.claim(name)
		e.needsRenewal(lease)
		e.replyLost(OpRenew, func() {
			err := errOf(a.renews(lease))
			e.require(!errors.Is(err, driver.ErrLost), "the renewal was carried out and its reply lost, yet it was: %w", err)
		})
		// Where the claim ends with its connection it may be gone by now; then that is said.
		var err error
		e.eventually(e.ttl/2, func() bool {
			err = errOf(a.renews(lease))
			return err == nil || errors.Is(err, driver.ErrLost)
		}, "a renewal after the one whose reply was lost says what is")
		if err != nil && e.caps.Ends != driver.EndsTTL {
			return
		}
		e.check(err, "the claim is there, yet the next renewal was")
		b.finds(name, "the claim was renewed")
		a.release(lease)
	}, "DropReply"),
	full("cut-after-each-request",
		ruleCancellation+", and what is said to have had no effect had none (connection cut after the first, the second, … request)", func(e *Env) {
			cutAfterEachRequest(e, false, func() *asker { return e.party().ask() })
		}, "CutAfter", "Direct").within(time.Minute),
	full("cut-after-each-request-orphan",
		"P5 crash: a claim that was cut off after any of its requests, and that nobody ever abandons, leaves nothing for longer than the TTL", func(e *Env) {
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
				why := fmt.Sprintf("a claim was cut off after request %d, its backend closed, and its TTL has passed", i+1)
				other.frees(name, e.takeover(), why)
			}
			e.leftovers("all claims have ended")
		}, "CutAfter", "Direct"),
	full("release-cut-after-each-request",
		"P4 ownership: a release that was cut off frees the name when it is repeated, or abandoned, and changes nothing of the next holder's claim", func(e *Env) {
			other, name := e.observer(), e.name()
			e.afterEachRequest(4, func(n int, arm func() <-chan struct{}, over func()) {
				a := e.party()
				req := a.request(name)
				lease := a.claimOf(req)
				arm()
				err := a.releases(lease)
				over()
				if err != nil && !errors.Is(err, driver.ErrLost) {
					a.abandon(req)
				}
				next := other.takesOf(other.patientRequest(name), soon, fmt.Sprintf("the release, cut off after request %d, returned %v, and the claim was abandoned "+
					"where that says it may still be held", n, err))
				_ = a.releases(lease)
				other.stillHolds(name, next, "the release that was cut off was repeated")
				e.check(a.Close(), "Close")
			})
		}, "CutAfter", "Direct"),
	full("many-cut-off", ruleCancellation+", and what is said to have had no effect had none (many at once, connection cut)",
		func(e *Env) { e.party().ask().cutTogether(e.observer()) }, "Delay", "Cut", "Direct"),
	full("server-gone",
		"P10 errors: a claim on a server that is not there ends in time, as unavailable or unknown, without the password in its error; "+
			"when the server is back, so are the locks", func(e *Env) {
			connected, fresh, name := e.party().connected(), e.party(), e.name()
			e.sever()
			for _, p := range []*party{connected, fresh} {
				start := time.Now()
				lease, err := p.try(p.request(name))
				took := time.Since(start)
				c := class(err)
				e.require(c == driver.ErrUnavailable || c == driver.ErrUnknown,
					"a claim on a server that is gone was neither unavailable nor unknown but (lease: %t): %w", lease != nil, err)
				e.require(took <= callTime+endTime, "a claim took %v, where its context allowed %v", took, callTime)
				e.noPassword(err)
			}
			e.restore()
			for _, p := range []*party{connected, fresh} {
				p.frees(name, e.takeover()+callTime, "the server is back")
			}
		}, "Sever"),
)

// repeatsLostRelease has a's release lose its reply, lets next have the name, and repeats the release.
func repeatsLostRelease(a, next *party) {
	e, name := next.connected().e, next.e.name()
	req := a.request(name)
	lease := a.claimOf(req)
	var first error
	e.replyLost(OpRelease, func() { first = a.releases(lease) })
	claim := next.takesOf(next.patientRequest(name), e.takeover(), "the release was carried out")
	second := a.releases(lease)
	if first != nil && second != nil && !errors.Is(second, driver.ErrLost) {
		a.abandon(req)
	}
	next.stillHolds(name, claim, "the release whose reply was lost was repeated")
}

// keptAfterLostReply loses the reply to a claim, claims again with the same owner if need be, and checks that the claim stays.
func keptAfterLostReply(e *Env) {
	a, b, name := e.party().connected(), e.party().connected(), e.name()
	req := a.request(name)
	var lease driver.Lease
	var err error
	e.replyLost(OpAcquire, func() { lease, err = a.try(req) })
	known := err == nil || poll(e.ctx, soon, func() bool {
		lease, err = a.try(req)
		return err == nil || errors.Is(err, driver.ErrHeld)
	})
	// A driver may go on to say that it does not know: whoever asked abandons the claim then.
	e.require(known || errors.Is(err, driver.ErrUnknown),
		"%v after the reply to it was lost a claim is neither granted, ErrHeld nor ErrUnknown but: %w", soon, err)
	if err != nil {
		a.abandon(req)
		e.notRun("a claim whose reply was lost is not granted when it is asked for again")
	}
	stop := a.keepAlive(lease)
	e.during(2*e.ttl+e.ttl/2, e.ttl/10, func() {
		b.finds(name, "the claim was granted after its first reply was lost, and is renewed")
	})
	stop()
	a.release(lease)
}

// noPassword checks that err does not show the password of the target, if that is a URL with one.
func (e *Env) noPassword(err error) {
	u, bad := url.Parse(e.cfg.Target)
	if bad != nil || u.User == nil || err == nil {
		return
	}
	if password, ok := u.User.Password(); ok && password != "" && strings.Contains(err.Error(), password) {
		e.failf("an error shows the password: %s", strings.ReplaceAll(err.Error(), password, "PASSWORD"))
	}
}
