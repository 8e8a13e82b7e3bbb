package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// joint is a mode in which claims hold a name together. Its cases fill a name with three claims, which exclude a rival: a
// writer for readers, or one permit more.
type joint struct {
	mode
	only mode // of a claim that excludes a rival alone

	taken  string // why a full name excludes a rival
	leave  int    // how many of the three must go before a rival is granted the name
	places int64  // of the name: a claim takes one of them, a writer all
	least  int64  // how many places 12 concurrent claims take, at least
}

// three is the number of claims that fill a name, and of its permits.
const three = 3

var (
	shared = mode{shared: true}
	sole   = joint{leave: three, places: 1, least: 1} // a writer, for the cases that all modes have
	reader = joint{mode: shared, only: shared, taken: "readers have the name", leave: three, places: 18, least: 1}
	permit = joint{mode: mode{permits: three}, only: mode{permits: 1}, taken: "all permits are held", leave: 1, places: three, least: three}
)

// sharedCases test readers and writers. They run if Capabilities.Shared is stated.
var sharedCases = stated("shared", func(c driver.Capabilities) bool { return c.Shared }, "Capabilities.Shared", append(reader.cases(),
	quick("contended", "capabilities: where Contended is stated, a reader is told that a writer waits, by Contended or with its grant",
		func(e *Env) { contended(e, shared) }),
	full("removed", "P3b removal: when the server forgets the readers, each is told within the stated time", func(e *Env) {
		a, b, name := e.two()
		here, there := a.watched(a.in(shared).request(name)), b.watched(b.in(shared).request(name))
		e.remove(name)
		here.within("the lock was removed at the server")
		there.within("the lock was removed at the server")
		c := e.party()
		writer := c.take(name, e.takeover(), "the server forgot the readers")
		defer c.keepAlive(writer)()
		here.isLost()
		there.isLost()
		e.party().wantHeldAs(a.in(shared).request(name), fmt.Sprintf("a writer has the name (token %d)", writer.Grant().Token))
	}, "Remove"),
	full("writer-is-not-starved", "P7 liveness: overlapping readers do not starve a writer", func(e *Env) {
		servedBeside(e, (*lockport.Client).TryAcquire, shared, mode{})
	}),
	full("readers-are-not-starved", "P7 liveness: writers in turn do not starve a reader", func(e *Env) {
		servedBeside(e, (*lockport.Client).Acquire, mode{}, shared)
	}),
)...)

// permitCases test permits. They run if Capabilities.Permits is stated.
var permitCases = stated("permits", func(c driver.Capabilities) bool { return c.Permits }, "Capabilities.Permits", permit.cases()...)

// stated makes a group of cases that are not run unless the backend states the capability what.
func stated(name string, is func(driver.Capabilities) bool, what string, cases ...Case) []Case {
	for i, c := range cases {
		cases[i].run = func(e *Env) {
			e.applies(is(e.caps), "%s is not stated", what)
			c.run(e)
		}
	}
	return group(name, cases...)
}

const ruleReplyLost = "P6 cancellation: a claim whose reply was lost counts once, and once Abandon has returned nil, it is not held and never will be"

// cases are those of every joint mode.
func (j joint) cases() []Case {
	return []Case{
		quick("together", "P1 exclusion: readers hold a name together and exclude a writer; n permits are held together and exclude another", j.together),
		quick("many-at-once", "P1 exclusion: many concurrent claims never exceed the readers or permits that can hold a name together", j.atOnce),
		quick("granted-twice", "contract: a claim that is repeated with the same owner, as after a lost reply, holds one place", j.grantedOnce),
		quick("abandoned", "P6 cancellation: an abandoned claim, granted or waiting, excludes nobody", j.abandoned),
		full("acquire-reply-lost", ruleReplyLost, func(e *Env) { e.party().in(j.only).claimant().replyToClaimLost() }, "DropReply"),
		full("cut-after-each-request", ruleReplyLost+" (after each of its requests)", func(e *Env) {
			cutAfterEachRequest(e, false, func() *claimant { return e.party().in(j.only).claimant() })
		}, "CutAfter", "Direct"),
		quick("inspected", "P3b removal: Inspect shows all holders that share a name, and Break ends only the claim of the given owner",
			j.inspected),
		quick("tokens", "P2 fencing: a rival's token is greater than those of all earlier holders, and so is every permit's", j.tokens),
		quick("wakes", "P7 liveness: a rival is granted a name as soon as enough holders have released it, and then its waiting holders together", j.wakes),
		full("dead-holder", "P5 crash: a dead holder's place is free within the stated time, and the other holders stay", j.deadHolder),
		full("silent-holder", "P3a silence: a claim that is not renewed ends with its TTL, and not before its validity ends", j.silentHolder),
		full("clients", "P1 exclusion: clients that compete for the places of a name sometimes take all of them, and never more", j.clients),
	}
}

// fill has a and b claim name in turn until a rival is excluded.
func (j joint) fill(name string, a, b *party) (leases []driver.Lease) {
	for i := range three {
		leases = append(leases, []*party{a, b}[i%2].in(j.mode).claim(name))
	}
	return leases
}

// rivals fills name with rivals: one writer, or all permits.
func (j joint) rivals(name string, p *party) (leases []driver.Lease) {
	for range three / j.leave {
		leases = append(leases, p.in(j.rival()).claim(name))
	}
	return leases
}

// options are those of an acquisition in mode m.
func (m mode) options() []lockport.AcquireOption {
	switch {
	case m.shared:
		return []lockport.AcquireOption{lockport.Shared()}
	case m.permits > 0:
		return []lockport.AcquireOption{lockport.Permits(m.permits)}
	}
	return nil
}

func (j joint) together(e *Env) {
	a, b, name := e.two()
	for leaving := range slices.Chunk(j.fill(name, a, b), j.leave) {
		for _, lease := range leaving {
			a.in(j.rival()).wantHeld(name, j.taken)
			e.party().wantHeldAs(b.in(j.rival()).request(name), j.taken)
			a.release(lease)
		}
		b.in(j.rival()).claim(name)
		for _, p := range []*party{a, b} {
			p.in(j.mode).wantHeld(name, "a rival took the place of those that left")
		}
	}
	if !j.shared {
		b.wantFree(name, "the lock of a name is independent of its permits")
	}
}

func (j joint) abandoned(e *Env) {
	a, b, name := e.two()
	for range 2 * three {
		req := a.in(j.mode).request(name)
		a.claimAs(req)
		a.abandon(req)
	}
	rivals := j.rivals(name, b)
	waiting := a.in(j.mode).queueing(name)
	a.wantHeldAs(waiting, "rivals have the name")
	a.abandon(waiting)
	b.release(rivals...)
	j.rivals(name, b)
	a.in(j.only).abandonedMeanwhile(b)
}

func (j joint) tokens(e *Env) {
	a, b, name := e.two()
	last := uint64(0)
	for range three {
		holders := j.fill(name, a, b)
		for _, lease := range holders {
			if token := e.rises(last, lease.Grant().Token); j.leave == 1 {
				last = token
			}
		}
		a.release(holders[:j.leave]...) // the oldest first
		rival := b.in(j.rival()).claim(name)
		for _, lease := range holders {
			last = max(last, lease.Grant().Token)
		}
		last = e.rises(last, rival.Grant().Token)
		a.release(append(holders[j.leave:], rival)...)
	}
}

func (j joint) wakes(e *Env) {
	clients, other, name := []*lockport.Client{e.patient(), e.patient()}, e.patient(), e.name() // expiry wakes nobody
	for range 5 {
		var holders, rivals []*lockport.Lock
		for i := range three {
			holders = append(holders, e.acquire(clients[i%2], name, j.options()...))
		}
		for leaving := range slices.Chunk(holders, j.leave) {
			rival := e.acquiring(other, name, j.rival().options()...)
			for _, l := range leaving {
				rival.notYet(20*time.Millisecond, j.taken)
				e.release(l)
			}
			rivals = append(rivals, rival.granted(soon, "enough holders released the name"))
		}
		var waiting []*call[*lockport.Lock]
		for i := range three {
			waiting = append(waiting, e.acquiring(clients[i%2], name, j.options()...))
		}
		waiting[0].notYet(20*time.Millisecond, "rivals have the name")
		e.release(rivals...)
		holders = nil
		for _, w := range waiting {
			holders = append(holders, w.granted(soon, "the rivals released the name, and its holders do not exclude each other"))
		}
		e.release(holders...)
	}
}

func (j joint) deadHolder(e *Env) {
	a, b, name := e.two()
	dead := a.in(j.mode).request(name)
	a.in(j.mode).claimAs(dead)
	var others []func()
	for range three - 1 {
		others = append(others, b.keep(b.in(j.mode).claim(name)))
	}
	next := e.acquiring(e.client(), name, j.rival().options()...)
	next.notYet(10*time.Millisecond, j.taken)
	e.check(a.Close(), "Close")
	if j.leave == 1 {
		next.granted(e.takeover(), "a holder has died")
	}
	c := e.party()
	e.during(e.takeover(), func() { c.in(j.rival()).wantHeld(name, "the other holders live") })
	st := c.shown(name)
	for _, holder := range append(st.Others, st) {
		e.require(holder.Owner != dead.Owner && !e.namesSessionOf(holder.Owner, dead.Owner), "a holder has died, yet Inspect shows it: %+v", st)
	}
	for _, release := range others {
		release()
	}
	next.granted(soon, "a holder has died, and the others released the name")
}

func (j joint) silentHolder(e *Env) {
	e.needsTTL()
	a, b, name := e.two()
	long := a.in(j.mode).request(name)
	long.TTL = e.atLeast(2 * e.ttl)
	claims := []driver.Lease{a.claimAs(long)}
	e.sleep(e.ttl / 3)
	for range three - 1 { // independent of the end of the earlier one
		claims = append(claims, b.in(j.mode).claim(name))
	}
	ends := []time.Time{claims[0].Grant().Until, claims[1].Grant().Until, claims[2].Grant().Until}
	slices.SortFunc(ends, time.Time.Compare)
	c := e.party().in(j.rival()) // a client's new claims may keep what its earlier ones share with them
	next := c.takeAs(c.patientRequest(name), e.takeover()+e.ttl, "no claim on the name is renewed")
	early := time.Until(ends[j.leave-1])
	e.require(early <= 0, "a rival was granted the name %v before the validity of its holders ended", early)
	e.rises(claims[2].Grant().Token, next.Grant().Token)
	if j.leave == 1 && long.TTL > e.ttl {
		c.take(name, soon, "the two claims with the shorter TTL have ended")
		c.wantHeld(name, "the claim with the longer TTL is valid, and two others are new")
	}
}

// clients has three clients with six goroutines each acquire a name repeatedly. Every third attempt gives up soon.
func (j joint) clients(e *Env) {
	clients, name := []*lockport.Client{e.client(), e.client(), e.client()}, e.name()
	var holds, taken, full atomic.Int64
	e.storm(18, func(ctx context.Context, i int) error {
		takes, opts := int64(1), j.options()
		if j.shared && i < 3 { // a writer of each client
			takes, opts = j.places, nil
		}
		for round := range 20 {
			patience := callTime + e.takeover()
			if round%3 == 2 {
				patience = 2 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(ctx, patience)
			l, err := clients[i%3].Acquire(ctx, name, opts...)
			cancel()
			if err != nil {
				if patience > callTime {
					return fmt.Errorf("the call of Acquire with a limit of %v returned: %w", patience, err)
				}
				continue
			}
			n := taken.Add(takes)
			<-time.After(time.Duration(1+round%5) * 200 * time.Microsecond)
			taken.Add(-takes)
			switch {
			case n > j.places:
				return fmt.Errorf("%d of %d places are taken at once (a reader or a permit takes one, a writer all)", n, j.places)
			case n == j.places:
				full.Add(1)
			}
			if err := l.Release(e.ctx); err != nil {
				return fmt.Errorf("the release of a held lock failed: %w", err)
			}
			holds.Add(1)
		}
		return nil
	})
	e.require(holds.Load() >= 18*13, "of %d acquisitions that did not give up only %d succeeded", 18*14, holds.Load())
	e.require(full.Load() > 0, "the %d places were never all taken at once", j.places)
}

// inspected breaks one of two claims that share a name.
func (j joint) inspected(e *Env) {
	a, b, name := e.two()
	optional[driver.Breaker](b)
	reqs, shown := []driver.Request{a.in(j.mode).request(name), b.in(j.mode).request(name)}, make([]string, 2)
	stays, told := b.claimAs(reqs[1]), a.watched(reqs[0]) // Break must not end the first one
	stop, unheard := b.keepAlive(stays), a.keepAlive(told.lease)
	st := b.inspect(name)
	e.require(st.Held && len(st.Others) == 1, "two claims hold the name, and Inspect says: %+v (%w)", st, errMissing)
	for _, holder := range append(st.Others, st) {
		for i, req := range reqs {
			if holder.Owner == req.Owner || e.namesSessionOf(holder.Owner, req.Owner) {
				shown[i] = holder.Owner
			}
		}
		e.require(holder.Shared == j.shared && (holder.Permits != 0) == (j.permits > 0), "Inspect returned a wrong mode: %+v", holder)
	}
	e.require(shown[0] != "" && shown[1] != "", "%s and %s hold the name, and Inspect says: %+v", reqs[0].Owner, reqs[1].Owner, st)
	unheard()
	e.check(b.breaks(name, shown[0]), "Break")
	told.within("the claim was broken")
	st = b.inspect(name)
	e.require(st.Owner == shown[1] && len(st.Others) == 0, "one of two claims was broken, and Inspect says: %+v", st)
	told.isLost()
	stop()
	e.check(b.renewIfNeeded(stays), "the renewal of a claim beside a broken one failed")
	b.release(stays)
	a.in(j.rival()).wantFreeIn(name, soon, "one claim was broken and the other released")
}

// servedBeside is served with eight goroutines of six clients, which acquire in the mode many. Those of the last four
// clients acquire by other. own is the mode of the client that must be served.
func servedBeside(e *Env, other func(*lockport.Client, context.Context, string, ...lockport.AcquireOption) (*lockport.Lock, error),
	many, own mode) {
	clients := []*lockport.Client{e.client(), e.client(), e.client(), e.client(), e.client(), e.client()}
	served(e, e.takeover(), 8, 2*time.Millisecond, func(ctx context.Context, name string, i int) (*lockport.Lock, error) {
		c := clients[i%6]
		if i%6 >= 2 {
			return other(c, ctx, name, many.options()...)
		}
		return c.Acquire(ctx, name, many.options()...)
	}, own.options()...)
}
