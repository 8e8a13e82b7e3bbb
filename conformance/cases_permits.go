package conformance

import (
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const rulePermits = "P1 exclusion: all permits of a name can be held at once, and never more"

// permits is the number of permits in the cases.
const permits = 3

// permitCases test permits. They run if Capabilities.Permits is stated.
var permitCases = stated("permits", func(c driver.Capabilities) bool { return c.Permits }, "Capabilities.Permits",
	quick("counted", rulePermits, func(e *Env) {
		a, b, name := e.two()
		var leases []driver.Lease
		for i := range permits {
			p := []*party{a, b}[i%2]
			leases = append(leases, p.claimAs(p.permit(name)))
		}
		for range 3 {
			a.wantHeldAs(a.permit(name), "all permits are held")
			b.wantHeldAs(b.permit(name), "all permits are held")
		}
		b.wantFree(name, "the lock of a name is independent of its permits")
		for _, lease := range leases {
			a.release(lease)
			b.claimAs(b.permit(name))
			a.wantHeldAs(a.permit(name), "all permits are held again")
		}
	}),
	quick("many-at-once", "P1 exclusion: of many concurrent claims of a permit, exactly as many succeed as there are permits", func(e *Env) {
		e.atOnce(permits, permits, func(int) mode { return (*party).permit })
	}),
	quick("granted-twice", "contract: a claim of a permit that is repeated with the same owner, as after a lost reply, holds one permit",
		func(e *Env) { grantedOnce(e, (*party).permit, permits-1) }),
	quick("abandoned", "P6 cancellation: an abandoned permit is free", func(e *Env) {
		a, b, name := e.two()
		for range 2 * permits {
			req := a.permit(name)
			a.claimAs(req)
			a.abandon(req)
		}
		for range permits {
			b.claimAs(b.permit(name))
		}
		a.abandonedMeanwhile(b, (*party).onlyPermit)
	}),
	full("acquire-reply-lost", ruleReplyLost+" (of a permit)",
		func(e *Env) { e.party().claimant((*party).onlyPermit).replyToClaimLost(e.party()) }, "DropReply"),
	full("cut-after-each-request", ruleReplyLost+" (of a permit, after each of its requests)", func(e *Env) {
		cutAfterEachRequest(e, false, func() *claimant { return e.party().claimant((*party).onlyPermit) })
	}, "CutAfter", "Direct"),
	quick("inspected", ruleInspected, func(e *Env) { inspected(e, (*party).permit) }),
	quick("tokens", "P2 fencing: a later grant of a permit has a greater token", func(e *Env) {
		a, b, name := e.two()
		var last uint64
		var held []driver.Lease
		for i := range 3 * permits {
			p := []*party{a, b}[i%2]
			held = append(held, p.claimAs(p.permit(name)))
			last = e.rises(last, held[len(held)-1].Grant().Token)
			if len(held) == permits {
				a.release(held[0]) // an older permit than the others
				held = held[1:]
			}
		}
	}),
	quick("wakes", "P7 liveness: a waiter for a permit gets one as soon as any permit is released", func(e *Env) {
		a, b, name := e.patient(), e.patient(), e.name() // expiry wakes nobody
		var locks []*lockport.Lock
		for range permits {
			locks = append(locks, e.acquire(a, name, lockport.Permits(permits)))
		}
		for _, l := range locks {
			waiting := e.begin(b, name, lockport.Permits(permits))
			waiting.notYet(20*time.Millisecond, "all permits are held")
			e.release(l)
			waiting.granted(soon, "a permit was released")
		}
	}),
	full("dead-holder", "P5 crash: a dead holder's permit is free within the stated time, and the others stay held", func(e *Env) {
		a, b, name := e.two()
		a.claimAs(a.permit(name))
		for range permits - 1 {
			lease := b.claimAs(b.permit(name))
			defer b.keepAlive(lease)()
		}
		next := e.begin(e.client(), name, lockport.Permits(permits))
		next.notYet(10*time.Millisecond, "all permits are held")
		e.check(a.Close(), "Close")
		next.granted(e.takeover(), "a holder has died")
		c := e.party()
		e.during(e.takeover(), e.ttl/10, func() { c.wantHeldAs(c.permit(name), "the other holders live") })
	}),
	full("silent-holder", "P3a silence: a permit that is not renewed is free after its TTL, and not before its validity ends", func(e *Env) {
		e.needsTTL()
		a, b, name := e.two()
		var first time.Time
		for range permits {
			lease := a.claimAs(a.permit(name))
			if first.IsZero() {
				first = lease.Grant().Until
			}
		}
		for range permits {
			b.takeAs(b.permit(name), e.takeover(), "no permit is renewed")
			e.require(!time.Now().Before(first), "a permit was granted again %v before the first holder's validity ended", time.Until(first))
		}
	}),
	full("clients", rulePermits+" (three clients with six goroutines each)", func(e *Env) {
		e.contendForPlaces(permits, func(int) (int64, []lockport.AcquireOption) {
			return 1, []lockport.AcquireOption{lockport.Permits(permits)}
		})
	}),
)

// permit makes a request for a permit of name.
func (p *party) permit(name string) driver.Request {
	req := p.request(name)
	req.Permits = permits
	return req
}

// onlyPermit makes a request for the only permit of name.
func (p *party) onlyPermit(name string) driver.Request {
	req := p.request(name)
	req.Permits = 1
	return req
}
