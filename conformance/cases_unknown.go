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
	full("acquire-reply-lost",
		"P6 cancellation: a claim whose reply was lost is unknown, and once Abandon has returned nil it is not held and never will be", func(e *Env) {
			a, b := e.party(), e.party()
			a.free(e.name(), "the name is new")
			b.free(e.name(), "the name is new")
			name := e.name()
			req := a.request(name)
			lost := e.dropReply(OpAcquire)
			lease, err := a.try(req)
			e.mustHappen(lost, "the reply to a claim was to be lost")
			switch {
			case err == nil: // asked again, with the same owner, by the client library
				b.finds(name, "the claim was granted at last")
				a.release(lease)
			case certain(err), errors.Is(err, driver.ErrHeld):
				e.failf("the claim was carried out and its reply lost, yet it was: %w", err)
			default:
				a.abandon(req)
			}
			b.free(name, "the claim was undone")
			e.leftovers(soon, "the claim was undone")
		}).needing(NeedDropReply),
	full("acquire-reply-lost-orphan",
		"P6 cancellation: a claim whose reply was lost, and that nobody ever abandons, leaves nothing for longer than the TTL", func(e *Env) {
			a, b := e.party(), e.party()
			a.free(e.name(), "the name is new")
			b.free(e.name(), "the name is new")
			name := e.name()
			lost := e.dropReply(OpAcquire)
			_, err := a.try(a.request(name))
			e.mustHappen(lost, "the reply to a claim was to be lost")
			if err == nil && e.caps.Ends != driver.EndsTTL {
				e.notRun("the client library asked again, and the claim ends with its %v", e.caps.Ends)
			}
			b.release(b.takes(name, e.takeover(), "an orphaned claim ends with its TTL"))
			e.leftovers(soon, "an orphaned claim ends with its TTL")
		}).needing(NeedDropReply),
	full("acquire-reply-lost-kept",
		"P1 exclusion: a claim whose reply was lost, and that is granted when it is asked for again, stays for as long as it is renewed", keptAfterLostReply).needing(NeedDropReply),
	full("release-reply-lost",
		"P4 ownership: a release whose reply was lost can be repeated, and changes nothing of the next holder's claim", func(e *Env) { repeatsLostRelease(e, e.party(), e.party()) }).needing(NeedDropReply),
	full("release-reply-lost-same-client",
		"P4 ownership: a release whose reply was lost can be repeated, and changes nothing of the same client's next claim", func(e *Env) {
			p := e.party()
			repeatsLostRelease(e, p, p)
		}).needing(NeedDropReply),
	full("renewal-reply-lost", "contract: a renewal whose reply was lost is unknown, never ErrLost: the claim is there, and the next renewal says so", func(e *Env) {
		a, b := e.party(), e.party()
		b.free(e.name(), "the name is new")
		name := e.name()
		lease := a.claim(name)
		if lease.Grant().Until.IsZero() {
			e.notRun("claims have no end of their own, so they are not renewed")
		}
		lost := e.dropReply(OpRenew)
		if _, err := a.renews(lease); errors.Is(err, driver.ErrLost) {
			e.failf("the renewal was carried out and its reply lost, yet it was: %w", err)
		}
		e.mustHappen(lost, "the reply to a renewal was to be lost")
		// Where the claim ends with its connection it may be gone by now; then that is said.
		var err error
		e.eventually(e.ttl/2, func() bool {
			_, err = a.renews(lease)
			return err == nil || errors.Is(err, driver.ErrLost)
		}, "a renewal after the one whose reply was lost says what is (last: %v)", lazily{&err})
		if err == nil {
			b.finds(name, "the claim was renewed")
			a.release(lease)
		} else if e.caps.Ends == driver.EndsTTL {
			e.failf("the claim is there, yet the next renewal was: %w", err)
		}
	}).needing(NeedDropReply),
	full("cut-after-each-request",
		ruleCancellation+", and what is said to have had no effect had none (connection cut after the first, the second, … request)", func(e *Env) {
			b := e.observer()
			order := e.tokensIfAny()
			name := e.name()
			for n := 1; n <= 8; n++ {
				// A backend of its own each time, so that connecting is among what is cut.
				a := e.party()
				cut := e.cutAfter(n)
				req := a.request(name)
				lease, err := a.try(req)
				done := happened(cut)
				e.restore()
				if err == nil {
					order(lease.Grant().Token)
				}
				a.settle(req, lease, err)
				order(b.free(name, fmt.Sprintf("TryAcquire, cut off after request %d, returned %v, and was undone", n, err)))
				e.check(a.Close(), "Close")
				if !done {
					return
				}
			}
		}).needing(NeedCutAfter, NeedDirect).within(time.Minute),
	full("cut-after-each-request-orphan",
		"P5 crash: a claim that was cut off after any of its requests, and that nobody ever abandons, leaves nothing for longer than the TTL", func(e *Env) {
			b := e.observer()
			var names []string
			for n := 1; n <= 8; n++ {
				a := e.party()
				cut := e.cutAfter(n)
				name := e.name()
				names = append(names, name)
				_, _ = a.try(a.request(name))
				done := happened(cut)
				e.restore()
				e.check(a.Close(), "Close")
				if !done {
					break
				}
			}
			for i, name := range names {
				why := fmt.Sprintf("a claim was cut off after request %d, its backend closed, and its TTL has passed", i+1)
				b.release(b.takes(name, e.takeover(), why))
			}
			e.leftovers(soon, "all claims have ended")
		}).needing(NeedCutAfter, NeedDirect),
	full("release-cut-after-each-request",
		"P4 ownership: a release that was cut off frees the name when it is repeated, or abandoned, and changes nothing of the next holder's claim", func(e *Env) {
			b := e.observer()
			name := e.name()
			for n := 1; n <= 4; n++ {
				a := e.party()
				req := a.request(name)
				lease, _ := a.claimOf(req)
				cut := e.cutAfter(n)
				err := a.releases(lease)
				done := happened(cut)
				e.restore()
				if err != nil && !errors.Is(err, driver.ErrLost) {
					a.abandon(req)
				}
				next := b.takes(name, soon, fmt.Sprintf("the release, cut off after request %d, returned %v, and the claim was abandoned "+
					"where that says it may still be held", n, err))
				_ = a.releases(lease)
				e.stillHolds(b, name, next, "the release that was cut off was repeated")
				e.check(a.Close(), "Close")
				if !done {
					return
				}
			}
		}).needing(NeedCutAfter, NeedDirect),
	full("many-cut-off", ruleCancellation+", and what is said to have had no effect had none (many at once, connection cut)", claimedTogether).needing(NeedDelay, NeedCut, NeedDirect),
	full("server-gone",
		"P10 errors: a claim on a server that is not there ends in time, as unavailable or unknown, without the password in its error; "+
			"when the server is back, so are the locks", func(e *Env) {
			a := e.party()
			a.free(e.name(), "the name is new")
			fresh := e.party()
			name := e.name()
			e.sever()
			for _, p := range []*party{a, fresh} {
				req := p.request(name)
				start := time.Now()
				lease, err := p.try(req)
				if c := class(err); c != driver.ErrUnavailable && c != driver.ErrUnknown {
					e.failf("a claim on a server that is gone was neither unavailable nor unknown but (lease: %t): %w",
						lease != nil, orNone(err))
				}
				if took := time.Since(start); took > callTime+endTime {
					e.failf("a claim took %v, where its context allowed %v", took, callTime)
				}
				e.noPassword(err)
			}
			e.restore()
			for _, p := range []*party{a, fresh} {
				p.release(p.takes(name, e.takeover()+callTime, "the server is back"))
			}
		}).needing(NeedSever),
)

// repeatsLostRelease has a's release lose its reply, lets next have the name, and repeats the release.
func repeatsLostRelease(e *Env, a, next *party) {
	next.free(e.name(), "the name is new")
	name := e.name()
	req := a.request(name)
	lease, _ := a.claimOf(req)
	lost := e.dropReply(OpRelease)
	first := a.releases(lease)
	e.mustHappen(lost, "the reply to a release was to be lost")
	claim := next.takes(name, e.takeover(), "the release was carried out")
	second := a.releases(lease)
	if first != nil && second != nil && !errors.Is(second, driver.ErrLost) {
		a.abandon(req)
	}
	e.stillHolds(next, name, claim, "the release whose reply was lost was repeated")
}

// keptAfterLostReply claims, loses the reply, claims again with the same owner where the driver has not done so itself, and looks whether what was
// granted in the end is more than a leftover that will pass.
func keptAfterLostReply(e *Env) {
	a, b := e.party(), e.party()
	a.free(e.name(), "the name is new")
	b.free(e.name(), "the name is new")
	name := e.name()
	req := a.request(name)
	lost := e.dropReply(OpAcquire)
	lease, err := a.try(req)
	e.mustHappen(lost, "the reply to a claim was to be lost")
	known := err == nil || poll(e.ctx, soon, func() bool {
		lease, err = a.try(req)
		return err == nil || errors.Is(err, driver.ErrHeld)
	})
	if !known && !errors.Is(err, driver.ErrUnknown) { // which a driver may go on to say: whoever asked abandons the claim then
		e.failf("%v after the reply to it was lost a claim is neither granted, ErrHeld nor ErrUnknown but: %w", soon, err)
	}
	if err != nil {
		a.abandon(req)
		e.notRun("a claim whose reply was lost is not granted when it is asked for again")
	}
	stop := a.keepAlive(lease)
	for end := time.Now().Add(2*e.ttl + e.ttl/2); time.Now().Before(end); e.sleep(e.ttl / 10) {
		b.finds(name, "the claim was granted after its first reply was lost, and is renewed")
	}
	stop()
	a.release(lease)
}

// mustHappen ends the case as not run if a fault did not happen: then nothing was tried.
func (e *Env) mustHappen(done <-chan struct{}, what string) {
	select {
	case <-done:
	case <-time.After(soon):
		e.notRun("%s, but the fault found no such request", what)
	}
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

// tokensIfAny checks the order of tokens where there are any.
func (e *Env) tokensIfAny() func(uint64) {
	if e.caps.Token == driver.TokenNone {
		return func(uint64) {}
	}
	t := e.tokens()
	return func(token uint64) { t.next(token, "a grant that was cut off") }
}
