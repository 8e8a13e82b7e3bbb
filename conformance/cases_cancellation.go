package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleCancellation = "P6 cancellation: once Abandon has returned nil, an abandoned claim leaves nothing behind and its name is free"
const ruleEffects = ruleCancellation + "; ErrUnavailable and ErrRefused mean no effect"

// cancellationCases test P6 of the driver: calls return when their contexts end, and Abandon undoes their effects.
var cancellationCases = group("cancellation",
	quick("before",
		"P6 cancellation: with a context that has ended, TryAcquire returns at once with the context's error and claims nothing; "+
			"Abandon returns nil only if the claim has ended", func(e *Env) {
			p, other, name := e.two()
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			req, start := p.request(name), time.Now()
			lease, err := p.TryAcquire(ctx, req)
			took := time.Since(start)
			e.require(lease == nil && errors.Is(err, context.Canceled), "TryAcquire must return context.Canceled; lease: %t, error: %w", lease != nil, err)
			e.require(took <= endTime, "TryAcquire must return at once; it took %v", took)
			if certain(err) {
				p.wantFree(name, "TryAcquire returned ErrUnavailable or ErrRefused, so it had no effect")
			}
			p.abandon(req)
			other.wantFree(name, "the claim was abandoned")
			req = p.request(name)
			p.claimAs(req)
			if p.Abandon(ctx, req) != nil {
				p.abandon(req)
			}
			other.wantFree(name, "Abandon of the claim, first with a context that has ended, returned nil")
		}),
	quick("at-any-moment", ruleEffects+" (context canceled at random moments of TryAcquire)",
		func(e *Env) { e.party().claimant().canceledAtAnyMoment() }),
	quick("abandon-meanwhile", ruleCancellation+", even while the canceled call is still under way", func(e *Env) {
		e.party().abandonedMeanwhile(e.party())
	}),
	quick("queued", "P6 cancellation: an abandoned claim gives up its place in the queue, so the name goes to the next waiter", func(e *Env) {
		e.applies(e.caps.Queue, "the server keeps no queue")
		leavesTheQueue(e, func(b *party, req driver.Request) { b.wantHeldAs(req, "the name is held") })
	}),
	quick("waiting", "P6 cancellation: Wait returns when its context ends, and leaves nothing behind once its claim is abandoned", func(e *Env) {
		leavesTheQueue(e, func(b *party, req driver.Request) {
			waiter := optional[driver.Waiter](b)
			w := begin(e, "Wait", func(ctx context.Context) (driver.Lease, error) { return waiter.Wait(ctx, req) })
			w.notYet(e.ttl/4, "the name is held")
			w.cancel()
			e.is(errOf(w.ended(endTime, "its context has ended")), "a canceled Wait must return context.Canceled; it returned", context.Canceled)
		})
	}),
	full("waiting-at-the-grant", ruleCancellation+" (context of Wait canceled around the grant)", func(e *Env) {
		a, b, name := e.two()
		other, waiter := e.party(), optional[driver.Waiter](b)
		for round := range 30 {
			lease, req := a.claim(name), b.request(name)
			w := begin(e, "Wait", func(ctx context.Context) (driver.Lease, error) { return e.sound(waiter.Wait(ctx, req)) })
			<-time.After(3*time.Millisecond + rand.N(time.Millisecond)) // most likely it waits now
			aroundTheRelease(round, w.cancel, func() { a.release(lease) })
			won, err := w.ended(endTime+soon, "its context has ended")
			b.settle(req, won, err)
			other.wantFree(name, "the waiting claim was released or abandoned")
		}
	}),
	full("silent-server",
		"P6 cancellation: on a silent server, calls return when their contexts end: TryAcquire ErrUnknown or ErrUnavailable, Check and Inspect ErrUnavailable; "+
			"Abandon undoes what arrives late", outOfReach((*Env).freeze), "Freeze"),
	full("claim-under-way", ruleCancellation+", even if the claim arrives at the server later", func(e *Env) {
		p, name, late := e.party().connected(), e.name(), callTime/2
		if e.caps.Ends != driver.EndsTTL || e.caps.FixedTTL > 0 {
			late = min(e.ttl, callTime/4) // a session that is silent for longer ends, and the claim with it
		}
		req := p.patientRequest(name)
		e.delay(2 * late) // a proxy delays the request by half of that
		w := begin(e, "TryAcquire", func(ctx context.Context) (driver.Lease, error) { return p.TryAcquire(ctx, req) })
		e.sleep(endTime / 5)
		w.cancel()
		e.restore()
		p.abandon(req)
		e.sleep(late)
		other := e.party()
		for range 10 { // on a busy machine it arrives later
			other.wantFree(name, "Abandon returned nil, and then the abandoned claim arrived")
			e.sleep(20 * time.Millisecond)
		}
	}, "Delay"),
	full("after-each-request", ruleCancellation+" (context canceled after each request of TryAcquire)", func(e *Env) {
		a := e.party().connected().claimant()
		canceledAfterEachRequest(e, func() *claimant { return a })
	}, "Delay", "Requests"),
)

// outOfReach makes a case that calls a server which fault keeps out of reach, on an open connection and on a new one.
func outOfReach(fault func(*Env)) func(*Env) {
	return func(e *Env) {
		parties := []*party{e.party().connected(), e.party()}
		var reqs []driver.Request
		var gone []bool
		a := parties[0]
		held := a.request(e.name())
		lease := a.claimAs(held)
		calls := map[string]func(context.Context) error{"a renewal": func(ctx context.Context) error { return errOf(driver.Renew(ctx, a.Backend, lease)) }}
		if breaker, ok := driver.As[driver.Breaker](a.Backend); ok {
			calls["Break"] = func(ctx context.Context) error { return breaker.Break(ctx, held.Name, held.Owner) }
		}
		if attacher, ok := driver.As[driver.Attacher](a.Backend); ok {
			again := a.request(held.Name)
			calls["Attach"] = func(ctx context.Context) error {
				return errOf(attacher.Attach(ctx, again, held.Owner, lease.Grant().Token))
			}
			a.abandonAtEnd(again)
		}
		fault(e)
		for i, p := range parties {
			reqs = append(reqs, p.request(e.name()))
			var lease driver.Lease
			err := e.endsInTime("TryAcquire", func(ctx context.Context) (err error) { lease, err = p.TryAcquire(ctx, reqs[i]); return err })
			e.require(err != nil, "a server out of reach granted a claim (lease: %t), "+orNoFault, lease != nil)
			c := class(err)
			e.require(c == driver.ErrUnavailable || c == driver.ErrUnknown,
				"a claim on a server out of reach must return ErrUnavailable or ErrUnknown; it returned (lease: %t): %w", lease != nil, err)
			// The driver may return nil if it knows that it sent nothing.
			gone = append(gone, e.endsInTime("Abandon", func(ctx context.Context) error { return p.Abandon(ctx, reqs[i]) }) == nil)
			looks := make(map[string]func(context.Context) error)
			if checker, ok := driver.As[driver.Checker](p.Backend); ok {
				looks["Check"] = func(ctx context.Context) error { return errOf(checker.Check(ctx)) }
			}
			if inspector, ok := driver.As[driver.Inspector](p.Backend); ok {
				looks["Inspect"] = func(ctx context.Context) error { return errOf(inspector.Inspect(ctx, reqs[i].Name)) }
			}
			for what, look := range looks {
				err := e.endsInTime(what, look)
				e.is(err, what+" must return ErrUnavailable; it returned", driver.ErrUnavailable)
				e.require(!strings.Contains(err.Error(), "\n"), "the error has more than one line: %q", err)
			}
		}
		for what, call := range calls {
			e.require(e.endsInTime(what, call) != nil, "%s succeeded, "+orNoFault, what)
		}
		e.restore()
		a.abandon(held)
		other := e.party()
		for i, p := range parties {
			if !gone[i] {
				p.abandon(reqs[i])
			}
			for range 5 { // delayed requests may arrive late
				other.wantFree(reqs[i].Name, "Abandon has returned nil")
				e.sleep(20 * time.Millisecond)
			}
			p.wantFreeIn(reqs[i].Name, e.takeover()+callTime, "the server is back")
		}
		e.leftovers("all claims were abandoned")
	}
}

// leavesTheQueue has b wait for a held name, and abandons its claim. Then the name must be free once its holder releases it.
func leavesTheQueue(e *Env, wait func(b *party, req driver.Request)) {
	a, b, name, lease := e.held()
	release, req := a.keep(lease), b.queueing(name)
	wait(b, req)
	b.abandon(req)
	b.abandon(req)
	release()
	next, why := e.party(), "the only waiter abandoned its claim"
	next.wantFree(name, why)
	next.release(next.takeAs(next.queueing(name), 0, why)) // a claim that would wait respects the turns of others
	e.leftovers("all claims were released or abandoned")
}

// aroundTheRelease cancels a wait just before the release of the name, just after it, or concurrently, in turn.
func aroundTheRelease(round int, cancel, release func()) {
	switch round % 3 {
	case 0:
		cancel()
		release()
	case 1:
		release()
		cancel()
	case 2:
		canceled := make(chan struct{})
		time.AfterFunc(rand.N(500*time.Microsecond), func() { cancel(); close(canceled) })
		<-time.After(rand.N(500 * time.Microsecond))
		release()
		<-canceled
	}
}

// unknownCases test requests whose outcome the driver cannot know, and unreachable servers.
var unknownCases = group("unknown",
	full("acquire-reply-lost", "P6 cancellation: after a lost reply a claim is unknown; once Abandon has returned nil, it is not held and never will be",
		func(e *Env) { e.party().claimant().replyToClaimLost() }, "DropReply"),
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
			cutAfterEachRequest(e, false, func() *claimant { return e.party().claimant() })
		}, "CutAfter", "Direct").within(time.Minute),
	full("cut-after-each-request-orphan",
		"P5 crash: a claim that was cut off after any of its requests, and is never abandoned, leaves nothing for longer than the TTL", func(e *Env) {
			other := e.observer()
			var names []string
			for n, more := 1, true; more && n <= 8; n++ {
				a, name := e.party(), e.name()
				names = append(names, name)
				more = e.cutAfter(n, func(<-chan struct{}) { _, _ = a.try(a.request(name)) })
				e.check(a.Close(), "Close")
			}
			for i, name := range names {
				why := fmt.Sprintf("a claim was cut off after request %d, its backend was closed, and its TTL has passed", i+1)
				other.wantFreeIn(name, e.takeover(), why)
			}
			e.leftovers("all claims have ended")
		}, "CutAfter", "Direct"),
	full("release-cut-after-each-request",
		"P4 ownership: a release that was cut off frees the name when it is repeated or abandoned, and does not affect the next holder", func(e *Env) {
			other, name := e.observer(), e.name()
			for n, more := 1, true; more && n <= 4; n++ {
				a := e.party()
				req := a.request(name)
				lease := a.claimAs(req)
				var err error
				more = e.cutAfter(n, func(<-chan struct{}) { err = a.tryRelease(lease) })
				if err != nil && !errors.Is(err, driver.ErrLost) {
					a.abandon(req)
				}
				next := other.take(name, soon, fmt.Sprintf("the release (cut off after request %d) returned %v, and "+
					"the claim was abandoned if it may still be held", n, err))
				_ = a.tryRelease(lease)
				other.stillHolds(name, next, "the release that was cut off was repeated")
				e.check(a.Close(), "Close")
			}
		}, "CutAfter", "Direct"),
	full("many-cut-off", ruleEffects+" (many claims at once, connections cut)",
		func(e *Env) { e.party().claimant().cutTogether() }, "Delay", "Cut", "Direct"),
	full("server-gone",
		"P10 errors: on an unreachable server, calls return in time and without the password: TryAcquire ErrUnavailable or ErrUnknown, Check and Inspect ErrUnavailable; "+
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
