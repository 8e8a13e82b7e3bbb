package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleShared = "P1 exclusion: readers hold a name together, and never beside a writer"

// sharedCases test readers and writers. They run if Capabilities.Shared is stated.
var sharedCases = stated("shared", func(c driver.Capabilities) bool { return c.Shared }, "Capabilities.Shared",
	quick("readers-and-writers", ruleShared, func(e *Env) {
		a, b, name := e.two()
		first, second := a.claimAs(a.reading(name)), b.claimAs(b.reading(name))
		again := a.claimAs(a.reading(name))
		for _, reader := range []driver.Lease{first, second, again} {
			e.party().wantHeld(name, "a reader has the name")
			a.release(reader)
		}
		writer := b.claim(name)
		for _, p := range []*party{a, b} {
			p.wantHeldAs(p.reading(name), "a writer has the name")
		}
		b.release(writer)
		a.release(a.claimAs(a.reading(name)))
		a.wantFree(name, "all holders released the name")
	}),
	quick("many-at-once", "P1 exclusion: of concurrent claims by readers and writers, either one writer's is granted, or readers' are", func(e *Env) {
		e.atOnce(12, 1, func(i int) mode {
			if i%4 == 0 {
				return (*party).request
			}
			return (*party).reading
		})
	}),
	quick("granted-twice", "contract: a reader's claim that is repeated with the same owner is granted once",
		func(e *Env) { grantedOnce(e, (*party).reading, 0) }),
	quick("abandoned", "P6 cancellation: an abandoned reader's claim, granted or waiting, excludes nobody", func(e *Env) {
		a, b, name := e.two()
		req := a.reading(name)
		a.claimAs(req)
		a.abandon(req)
		writer := b.claim(name)
		req = a.reading(name)
		req.Queue = e.caps.Queue
		a.wantHeldAs(req, "a writer has the name")
		a.abandon(req)
		b.release(writer)
		b.wantFree(name, "the waiting reader's claim was abandoned")
		a.abandonedMeanwhile(b, (*party).reading)
	}),
	full("acquire-reply-lost", ruleReplyLost+" (a reader's)",
		func(e *Env) { e.party().claimant((*party).reading).replyToClaimLost(e.party()) }, "DropReply"),
	full("cut-after-each-request", ruleReplyLost+" (a reader's, after each of its requests)", func(e *Env) {
		cutAfterEachRequest(e, false, func() *claimant { return e.party().claimant((*party).reading) })
	}, "CutAfter", "Direct"),
	quick("inspected", ruleInspected, func(e *Env) { inspected(e, (*party).reading) }),
	quick("tokens", "P2 fencing: a writer's token is greater than those of all earlier readers and writers", func(e *Env) {
		a, b, name := e.two()
		var last uint64
		for i := range 6 {
			p := []*party{a, b}[i%2]
			reader := p.claimAs(p.reading(name))
			p.release(reader)
			writer := p.claim(name)
			e.rises(last, reader.Grant().Token)
			e.rises(reader.Grant().Token, writer.Grant().Token)
			last = writer.Grant().Token
			p.release(writer)
		}
	}),
	quick("writer-wakes", "P7 liveness: a waiting writer gets the name when the last reader releases it", func(e *Env) {
		a, b, c, name := e.patient(), e.patient(), e.patient(), e.name() // expiry wakes nobody
		for range 5 {
			here, there := e.acquire(a, name, lockport.Shared()), e.acquire(b, name, lockport.Shared())
			writer := e.begin(c, name)
			writer.notYet(20*time.Millisecond, "readers have the name")
			e.release(here)
			writer.notYet(20*time.Millisecond, "a reader has the name")
			e.release(there)
			e.release(writer.granted(soon, "the last reader released the name"))
		}
	}),
	quick("readers-wake", "P7 liveness: waiting readers get the name together when the writer releases it", func(e *Env) {
		writer, name := e.patient(), e.name()
		clients := []*lockport.Client{e.patient(), e.patient()}
		for range 5 {
			held := e.acquire(writer, name)
			var readers []*call[*lockport.Lock]
			for i := range 6 {
				readers = append(readers, e.begin(clients[i%2], name, lockport.Shared()))
			}
			readers[0].notYet(20*time.Millisecond, "a writer has the name")
			e.release(held)
			var locks []*lockport.Lock
			for _, r := range readers {
				locks = append(locks, r.granted(soon, "the writer released the name, and readers do not exclude each other"))
			}
			for _, l := range locks {
				e.release(l)
			}
		}
	}),
	quick("contended", "capabilities: where Contended is stated, a reader is told that a writer waits, by Contended or with its grant",
		func(e *Env) { contended(e, (*party).reading) }),
	full("dead-reader", "P5 crash: a dead reader's claim ends within the stated time, and other readers' claims stay", func(e *Env) {
		a, b, name := e.two()
		a.claimAs(a.reading(name))
		reader := b.claimAs(b.reading(name))
		stop := b.keepAlive(reader)
		e.check(a.Close(), "Close")
		c := e.party()
		e.during(e.takeover(), e.ttl/10, func() { c.wantHeld(name, "a reader lives") })
		stop()
		b.release(reader)
		c.wantFree(name, "one reader died, and the other released the name")
	}),
	full("silent-reader", "P3a silence: a reader's claim that is not renewed ends with its TTL, and not before its validity ends", func(e *Env) {
		a, b, name := e.two()
		first := a.claimAs(a.reading(name))
		e.sleep(e.ttl / 3)
		last := b.claimAs(b.reading(name)) // independent of the end of the earlier one
		e.require(first.Grant().Until.IsZero() || first.Grant().Until.Before(last.Grant().Until), "a later claim must be valid for longer")
		c := e.party() // a client's new claims may keep what its earlier ones share with them
		c.release(c.afterExpiry(last, last.Grant().Until, name))
	}),
	full("removed", "P3b removal: when the server forgets the readers, each is told within the stated time", func(e *Env) {
		a, b, name := e.two()
		here, there := a.watched(a.reading(name)), b.watched(b.reading(name))
		e.remove(name)
		here.within("the lock was removed at the server")
		there.within("the lock was removed at the server")
		c := e.party()
		writer := c.take(name, e.takeover(), "the server forgot the readers")
		defer c.keepAlive(writer)()
		here.isLost()
		there.isLost()
		e.party().wantHeldAs(a.reading(name), fmt.Sprintf("a writer has the name (token %d)", writer.Grant().Token))
	}, "Remove"),
	full("writer-is-not-starved", "P7 liveness: overlapping readers do not starve a writer", func(e *Env) {
		servedBeside(e, (*lockport.Client).TryAcquire, []lockport.AcquireOption{lockport.Shared()}, nil)
	}),
	full("readers-are-not-starved", "P7 liveness: writers in turn do not starve a reader", func(e *Env) {
		servedBeside(e, (*lockport.Client).Acquire, nil, []lockport.AcquireOption{lockport.Shared()})
	}),
	full("clients", ruleShared+" (three clients with five readers and one writer each)", func(e *Env) {
		e.contendForPlaces(18, func(i int) (int64, []lockport.AcquireOption) {
			if i == 0 {
				return 18, nil
			}
			return 1, []lockport.AcquireOption{lockport.Shared()}
		})
	}),
)

// stated makes a group of cases that are not run unless the backend states the capability what.
func stated(name string, is func(driver.Capabilities) bool, what string, cases ...Case) []Case {
	for i, c := range cases {
		cases[i].run = func(e *Env) {
			if !is(e.caps) {
				e.notRun("%s is not stated", what)
			}
			c.run(e)
		}
	}
	return group(name, cases...)
}

const ruleReplyLost = "P6 cancellation: a claim whose reply was lost counts once, and once Abandon has returned nil, it is not held and never will be"

const ruleInspected = "P3b removal: Inspect shows all holders that share a name, and Break ends only the claim of the given owner"

// inspected breaks one of two claims that share a name.
func inspected(e *Env, as mode) {
	a, b, name := e.two()
	optional[driver.Breaker](b)
	reqs, shown := []driver.Request{as(a, name), as(b, name)}, make([]string, 2)
	told, stays := a.watched(reqs[0]), b.claimAs(reqs[1])
	stop, unheard := b.keepAlive(stays), a.keepAlive(told.lease)
	st := b.inspect(name)
	e.require(st.Held && len(st.Others) == 1, "two claims hold the name, and Inspect says: %+v", st)
	for _, holder := range append(st.Others, st) {
		for i, req := range reqs {
			if holder.Owner == req.Owner || e.namesSessionOf(holder.Owner, req.Owner) {
				shown[i] = holder.Owner
			}
		}
		e.require(holder.Shared == reqs[0].Shared && (holder.Permits != 0) == (reqs[0].Permits > 0), "Inspect returned a wrong mode: %+v", holder)
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
	a.wantFreeAs(a.rival(reqs[0]), soon, "one claim was broken and the other released")
}

// reading makes a reader's request.
func (p *party) reading(name string) driver.Request {
	req := p.request(name)
	req.Shared = true
	return req
}

// servedBeside is served with eight goroutines of six clients, which acquire with the options many. Those of the last four
// clients acquire by other. own are the options of the client that must be served.
func servedBeside(e *Env, other func(*lockport.Client, context.Context, string, ...lockport.AcquireOption) (*lockport.Lock, error),
	many, own []lockport.AcquireOption) {
	clients := []*lockport.Client{e.client(), e.client(), e.client(), e.client(), e.client(), e.client()}
	served(e, e.takeover(), 8, 2*time.Millisecond, func(ctx context.Context, name string, i int) (*lockport.Lock, error) {
		if c := clients[i%6]; i%6 >= 2 {
			return other(c, ctx, name, many...)
		}
		return clients[i%6].Acquire(ctx, name, many...)
	}, own...)
}

// contendForPlaces has three clients with six goroutines each acquire a name repeatedly. The name has places, as in atOnce. as
// returns how many the i-th goroutine of each client takes, and its options. Every third attempt gives up soon.
func (e *Env) contendForPlaces(places int64, as func(i int) (takes int64, opts []lockport.AcquireOption)) {
	clients, name := []*lockport.Client{e.client(), e.client(), e.client()}, e.name()
	var holds, taken, full atomic.Int64
	e.storm(18, func(ctx context.Context, i int) error {
		takes, opts := as(i / 3)
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
					return err
				}
				continue
			}
			n := taken.Add(takes)
			<-time.After(200 * time.Microsecond)
			taken.Add(-takes)
			switch {
			case n > places:
				return fmt.Errorf("%d of %d places are taken at once (a reader or a permit takes one, a writer all)", n, places)
			case n == places:
				full.Add(1)
			}
			if err := l.Release(e.ctx); err != nil {
				return err
			}
			holds.Add(1)
		}
		return nil
	})
	e.require(holds.Load() >= 18*13, "of %d acquisitions that did not give up only %d succeeded", 18*14, holds.Load())
	e.require(full.Load() > 0, "the %d places were never all taken at once", places)
}
