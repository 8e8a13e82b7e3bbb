package conformance

import (
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const rulePermits = "P1 exclusion: as many as there are permits of a name hold one, and never more"

// permits is how many permits the cases use.
const permits = 3

// permitCases are about permits, where Capabilities.Permits is stated.
var permitCases = stated("permits", func(c driver.Capabilities) bool { return c.Permits }, "Capabilities.Permits",
	quick("counted", rulePermits, func(e *Env) {
		a, b, name := e.two()
		var leases []driver.Lease
		for i := range permits {
			p := []*party{a, b}[i%2]
			leases = append(leases, p.claimOf(p.permit(name)))
		}
		for range 3 {
			a.findsAs(a.permit(name), "all permits are held")
			b.findsAs(b.permit(name), "all permits are held")
		}
		b.free(name, "the lock of a name is none of its permits")
		for _, lease := range leases {
			a.release(lease)
			b.claimOf(b.permit(name))
			a.findsAs(a.permit(name), "all permits are held again")
		}
	}),
	quick("many-at-once", "P1 exclusion: of many who claim a permit at once, as many as there are get one", func(e *Env) {
		e.atOnce(permits, permits, func(int) mode { return (*party).permit })
	}),
	quick("granted-twice", "contract: a claim of a permit that is made again with the same owner, as after a lost reply, has one permit", func(e *Env) {
		a, b, name := e.two()
		req := a.permit(name)
		lease := a.claimOf(req)
		if again, err := a.try(req); err == nil {
			lease = again
		}
		for range permits - 1 {
			e.check(errOf(b.try(b.permit(name))), "one of %d permits is held, by an owner who claimed twice, yet a claim was", permits)
		}
		b.findsAs(b.permit(name), "all permits are held")
		a.release(lease)
		b.claimOf(b.permit(name))
		b.findsAs(b.permit(name), "all permits are held")
	}),
	quick("abandoned", "P6 cancellation: a permit that was abandoned is free", func(e *Env) {
		a, b, name := e.two()
		for range 2 * permits {
			req := a.permit(name)
			a.claimOf(req)
			a.abandon(req)
		}
		for range permits {
			b.claimOf(b.permit(name))
		}
		a.abandonedMeanwhile(b, (*party).onlyPermit, (*party).onlyPermit)
	}),
	full("acquire-reply-lost", ruleReplyLost+" (of a permit)",
		func(e *Env) { e.party().askAs((*party).onlyPermit, (*party).onlyPermit).replyToClaimLost(e.party()) }, "DropReply"),
	full("cut-after-each-request", ruleReplyLost+" (of a permit, after any of its requests)", func(e *Env) {
		cutAfterEachRequest(e, false, func() *asker { return e.party().askAs((*party).onlyPermit, (*party).onlyPermit) })
	}, "CutAfter", "Direct"),
	quick("inspected", ruleInspected, func(e *Env) { inspected(e, (*party).permit, (*party).permit) }),
	quick("tokens", "P2 fencing: a later grant of a permit has a greater token", func(e *Env) {
		a, b, name := e.two()
		var last uint64
		var held []driver.Lease
		for i := range 3 * permits {
			p := []*party{a, b}[i%2]
			held = append(held, p.claimOf(p.permit(name)))
			last = e.rises(last, held[len(held)-1].Grant().Token)
			if len(held) == permits {
				a.release(held[0]) // a permit that others have come after
				held = held[1:]
			}
		}
	}),
	quick("wakes", "P7 liveness: who waits for a permit gets one as soon as any of them was released", func(e *Env) {
		a, b, name := e.patient(), e.patient(), e.name() // no expiry wakes anybody
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
	full("dead-holder", "P5 crash: a dead holder's permit is free in the stated time, and those of others stay theirs", func(e *Env) {
		a, b, name := e.two()
		a.claimOf(a.permit(name))
		for range permits - 1 {
			lease := b.claimOf(b.permit(name))
			defer b.keepAlive(lease)()
		}
		next := e.begin(e.client(), name, lockport.Permits(permits))
		next.notYet(10*time.Millisecond, "all permits are held")
		e.check(a.Close(), "Close")
		next.granted(e.takeover(), "a holder has died")
		c := e.party()
		e.during(e.takeover(), e.ttl/10, func() { c.findsAs(c.permit(name), "the others live") })
	}),
	full("silent-holder", "P3a silence: a permit that is not renewed is free after its TTL, and not before the end of its validity", func(e *Env) {
		e.needsTTL()
		a, b, name := e.two()
		var first time.Time
		for range permits {
			lease := a.claimOf(a.permit(name))
			if first.IsZero() {
				first = lease.Grant().Until
			}
		}
		for range permits {
			b.takesOf(b.permit(name), e.takeover(), "nothing is renewed")
			e.require(!time.Now().Before(first), "a permit was granted again %v before the first holder's validity ended", time.Until(first))
		}
	}),
	full("clients", rulePermits+" (three clients with six goroutines each)", func(e *Env) {
		e.mill(permits, func(int) (int64, []lockport.AcquireOption) {
			return 1, []lockport.AcquireOption{lockport.Permits(permits)}
		})
	}),
)

// permit makes a request for one of the permits of name.
func (p *party) permit(name string) driver.Request {
	req := p.request(name)
	req.Permits = permits
	return req
}

// onlyPermit makes one for the only permit of a name.
func (p *party) onlyPermit(name string) driver.Request {
	req := p.request(name)
	req.Permits = 1
	return req
}
