package conformance

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// capabilitiesCases compare Capabilities with the backend. Other groups test stated orders, tokens, wake-ups and notices.
var capabilitiesCases = group("capabilities",
	quick("stated", "capabilities: Capabilities are complete, and the same at every call", func(e *Env) {
		p := e.party()
		a, b := p.Capabilities(), p.Capabilities()
		for _, c := range []driver.Capabilities{a, b} {
			// String panics on a value out of range.
			_ = [...]string{c.Ends.String(), c.Token.String(), c.Fair.String(), c.Wake.String(), c.Failover.String()}
		}
		if n := a.RemovalNotice; n != nil && n(e.ttl) != b.RemovalNotice(e.ttl) {
			e.failf("RemovalNotice(%v) is %v, then %v", e.ttl, n(e.ttl), b.RemovalNotice(e.ttl))
		}
		a.RemovalNotice, b.RemovalNotice = nil, nil // functions cannot be compared
		e.require(reflect.DeepEqual(a, b), "Capabilities returned %+v, then %+v", a, b)
		e.require(a.Backend != "", "Capabilities.Backend is empty")
		e.require(a.Ends != driver.EndsNever, "Capabilities.Ends is EndsNever: a dead holder would keep the lock forever")
		e.require(min(a.MinTTL, a.TTLGrain, a.FixedTTL) >= 0, "durations must not be negative: %+v", a)
		e.require(a.Ends != driver.EndsSession || a.FixedTTL > 0, "Ends is EndsSession, so FixedTTL must state how long a silent session lasts")
		e.require(a.FixedTTL == 0 || a.FixedTTL >= a.MinTTL, "FixedTTL %v is below MinTTL %v", a.FixedTTL, a.MinTTL)
	}),
	quick("interfaces", "capabilities: the stated interfaces are implemented, and driver.As finds them through a wrapper", func(e *Env) {
		b := e.party() // itself a wrapper
		_, waiter := driver.As[driver.Waiter](b)
		_, notifier := driver.As[driver.Notifier](b)
		_, requeuer := driver.As[driver.Requeuer](b)
		_, attacher := driver.As[driver.Attacher](b)
		_, breaker := driver.As[driver.Breaker](b)
		_, inspector := driver.As[driver.Inspector](b)
		wake, queue := e.caps.Wake, waiter || e.caps.Queue
		e.require(wake != driver.WakeNotify || notifier, "Wake is WakeNotify, but no driver.Notifier is found")
		e.require(wake != driver.WakeQueue && wake != driver.WakeQueueOrPoll || waiter, "Wake is %v, but no driver.Waiter is found", wake)
		e.require(wake != driver.WakePoll || !notifier && !waiter,
			"Wake is WakePoll, but the backend is a driver.Notifier (%t) or a driver.Waiter (%t)", notifier, waiter)
		e.require(e.caps.Fair != driver.FairFIFO || queue, "Fair is FairFIFO, but there is neither a driver.Waiter nor a queue")
		e.require(e.caps.Detach == attacher, "Detach is %t, but whether driver.As finds a driver.Attacher: %t", e.caps.Detach, attacher)
		e.require(!requeuer || queue, "the backend is a driver.Requeuer, but there is neither a driver.Waiter nor a queue")
		e.require(!breaker || inspector, "the backend is a driver.Breaker, but no driver.Inspector, which shows the owners of locks")
	}),
	quick("ttl", "capabilities: a TTL that MinTTL or FixedTTL rules out is ErrRefused, and MinTTL itself is accepted", func(e *Env) {
		p, smallest := e.party(), max(e.caps.MinTTL, time.Millisecond)
		if another := e.caps.FixedTTL + time.Second; e.caps.FixedTTL > 0 {
			p.wantTTLRefused(another)
			_, err := e.client().TryAcquire(e.ctx, e.name(), lockport.TTL(another))
			e.is(err, "the client's TryAcquire with another TTL must return errors.ErrUnsupported; it returned", errors.ErrUnsupported)
			return
		}
		if e.caps.MinTTL > 0 {
			p.wantTTLRefused(smallest - time.Millisecond)
		}
		req := p.request(e.name())
		req.TTL = smallest
		// With the smallest TTL the claim may expire before the reply comes, but it must not be refused.
		lease, err := p.try(req)
		if err == nil {
			_ = p.tryRelease(lease)
			return
		}
		e.require(!errors.Is(err, driver.ErrRefused), "MinTTL is %v, yet a claim with a TTL of %v returned: %w", e.caps.MinTTL, smallest, err)
		p.abandon(req)
	}),
	full("grain", "capabilities: a TTL is rounded up to TTLGrain, never down, so a claim lasts at least its TTL", func(e *Env) {
		e.applies(e.caps.FixedTTL == 0 && e.caps.Ends == driver.EndsTTL, "claims do not have their own TTL")
		a, b, name := e.two()
		req := a.request(name)
		req.TTL = e.ttl + max(e.caps.TTLGrain/3, 489*time.Millisecond)
		sent := time.Now()
		left := time.Until(a.claimAs(req).Grant().Until)
		most := roundUp(req.TTL, e.caps.TTLGrain)
		e.require(left <= most, "the validity left is %v, but the TTL was %v, which the grain %v rounds up to %v", left, req.TTL, e.caps.TTLGrain, most)
		b.wantFreeIn(name, e.takeover()+most-e.ttl, "a claim that is not renewed ends with its TTL")
		lasted := time.Since(sent)
		e.require(lasted >= req.TTL, "a claim with a TTL of %v lasted for only %v", req.TTL, lasted)
	}),
	full("prompt", "capabilities: where Prompt is stated, TryAcquire and Requeue return within 100 ms of their context's end, and Release of its deadline",
		func(e *Env) {
			// Several calls at once, on an open connection and on a new one.
			e.applies(e.caps.Prompt, "Capabilities.Prompt is not stated")
			connected, fresh := e.party().connected(), e.party()
			const together, limit, most = 4, 50 * time.Millisecond, 100 * time.Millisecond
			var leases []driver.Lease
			var reqs []driver.Request
			for range 2 * together {
				reqs = append(reqs, connected.request(e.name()))
				leases = append(leases, connected.claimAs(reqs[len(reqs)-1]))
			}
			e.freeze()
			var lates []time.Duration
			longest, latest := time.Duration(0), ""
			measure := func(what string, f func(context.Context, int) error) {
				stalled := stalls(func() {})
				var all [together]*call[time.Duration]
				for i := range all {
					all[i] = begin(e, what, func(ctx context.Context) (time.Duration, error) {
						ctx, cancel := context.WithTimeout(ctx, []time.Duration{limit, callTime}[i%2])
						defer cancel()
						start := time.Now()
						defer time.AfterFunc(limit, cancel).Stop()
						err := f(ctx, i)
						return time.Since(start) - limit, err
					})
				}
				for _, w := range all {
					_, err := w.ended(limit+2*endTime, "its context has ended")
					e.require(err != nil, "a silent server answered %s, "+orNoFault, what)
				}
				machine := 2 * stalled() // once for the end of the context, once for the return
				for _, w := range all {
					late := w.result - machine
					lates = append(lates, late)
					if late > longest {
						longest, latest = late, what
					}
				}
			}
			measure("TryAcquire", func(ctx context.Context, _ int) error {
				return errOf(connected.TryAcquire(ctx, connected.request(e.name())))
			})
			measure("TryAcquire on a new connection", func(ctx context.Context, _ int) error {
				return errOf(fresh.TryAcquire(ctx, fresh.request(e.name())))
			})
			measure("Release", func(ctx context.Context, i int) error {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit) // as the client's
				defer cancel()
				return leases[i].Release(ctx)
			})
			if requeuer, ok := driver.As[driver.Requeuer](connected.Backend); ok {
				measure("Requeue", func(ctx context.Context, i int) error {
					again := connected.queueing(reqs[together+i].Name)
					connected.abandonAtEnd(again)
					_, _, err := requeuer.Requeue(ctx, leases[together+i], again)
					return err
				})
			}
			slices.Sort(lates)
			e.require(lates[len(lates)*2/3] <= most && longest <= endTime, // stalls may have missed a busy moment of the machine
				"of %d calls too many returned later than %v after their context's end; the latest, %s, %v after it", len(lates), most, latest, longest)
		}, "Freeze"),
)

// wantTTLRefused checks that a claim with this TTL returns ErrRefused.
func (p *party) wantTTLRefused(ttl time.Duration) {
	req := p.request(p.e.name())
	req.TTL = ttl
	_, err := p.try(req)
	p.e.require(errors.Is(err, driver.ErrRefused), "a claim with a TTL of %v, which Capabilities exclude, was not ErrRefused but: %w", ttl, err)
}

// optionalCases test the optional interfaces of package driver.
var optionalCases = group("optional",
	quick("requeue", "contract: Requeue releases the old claim and makes a new one, behind clients that already wait", func(e *Env) {
		a, b, name := e.two()
		// Nobody else waits.
		old := a.claim(name)
		lease, _, released, err := a.requeue(name, old)
		e.require(released == nil && err == nil, "nobody else waits, yet Requeue returned the errors: %v; %w", released, err)
		e.rises(old.Grant().Token, lease.Grant().Token)
		e.is(a.tryRelease(old), "the release of the old lease must return nil or ErrLost; it returned", nil, driver.ErrLost)
		b.wantHeld(name, "Requeue granted the name again, and only the old lease was released")

		// Another client waits.
		if !e.caps.Queue {
			a.release(lease)
			return
		}
		waits := b.queueing(name)
		b.wantHeldAs(waits, "the name is held")
		_, again, released, err := a.requeue(name, lease)
		e.check(released, "Requeue did not release the old claim")
		if e.caps.Fair != driver.FairNone {
			e.is(err, "another client waits already, yet the claim of Requeue was not ErrHeld but", driver.ErrHeld)
		}
		next := b.takeAs(waits, soon, "it waited first")
		st := b.shown(name)
		e.require(!st.Held || st.Waiters != 0, "the claim of Requeue waits in the server's queue, but Inspect shows no waiter")
		b.release(next)
		a.release(a.takeAs(again, soon, "it waited, and the first waiter released the name"))

		// The old claim is lost.
		gone := a.request(name)
		old = a.claimAs(gone)
		a.abandon(gone)
		lease, again, _, err = a.requeue(name, old)
		a.settle(again, lease, err)
		b.wantFree(name, "all claims were released")
	}),
	quick("inspect", "contract: Inspect returns the holder of a name, its token and expiry, and changes nothing", func(e *Env) {
		p, other := e.party(), e.party()
		name := e.name() + "*?[é/ %"
		st := other.inspect(name)
		e.require(!st.Held && st.Name == name, "nobody ever held the name, but Inspect returned: %+v", st)
		req := p.request(name)
		lease := p.claimAs(req)
		e.check(p.renewIfNeeded(lease), "the renewal of a held claim") // which changes neither the owner nor the token
		st = other.inspect(name)
		left, since := time.Until(st.Expires), time.Since(st.Since)
		e.require(st.Held && !st.Foreign && st.Name == name, "a lockport client holds the name, but Inspect returned: %+v", st)
		e.require(st.Owner == req.Owner || e.namesSessionOf(st.Owner, req.Owner), "Inspect returned the owner %q; it is %q", st.Owner, req.Owner)
		e.require(st.Token == 0 || st.Token == lease.Grant().Token, "Inspect returned the token %d; it is %d", st.Token, lease.Grant().Token)
		e.require(st.Expires.IsZero() || left <= e.ttl+time.Second && left >= -time.Second,
			"Inspect says that the lock expires in %v, but its TTL is %v", left, e.ttl)
		e.require(st.Since.IsZero() || since <= e.ttl+callTime && since >= -time.Second, "the lock is new, but Inspect says that it is held for %v", since)
		shown := time.Now()
		e.sleep(e.ttl / 20) // the server's clock may reach Inspect with a delay
		e.eventually(e.ttl/2, func() bool { return other.inspect(name).Since.Sub(st.Since) <= time.Since(shown)/2 },
			"Inspect's Since stays the time of the grant, and does not move on with the clock")
		p.release(lease)
		st = other.inspect(name)
		e.require(!st.Held, "the name was released, but Inspect returned: %+v", st)
	}),
	full("inspect-does-not-renew", "contract: Inspect and List do not extend a claim", func(e *Env) {
		p, other, name := e.two()
		inspector := optional[driver.Inspector](other)
		e.needsTTL()
		p.claim(name)
		e.eventually(e.takeover(), func() bool {
			found, err := inspector.List(e.ctx, name)
			e.check(err, "List")
			return !other.inspect(name).Held && len(found) == 0
		}, "a claim that is inspected but not renewed ends with its TTL")
	}),
	quick("list", "contract: List returns exactly the held names that start with the prefix, taken literally", func(e *Env) {
		p := e.party()
		inspector := optional[driver.Inspector](p)
		base := e.name()
		for _, s := range []string{"a", "ab", "*", "?b", "[a]", "%a", "_a", "é", "A", "a/b"} {
			p.claimAs(p.patientRequest(base + s)) // listing takes time
		}
		p.wantFree(base+"gone", "the name is new")
		for prefix, want := range map[string]int{
			"": 10, "a": 3, "*": 1, "?": 1, "[": 1, "[a]": 1, "%": 1, "_": 1, "a/": 1, "é": 1, "A": 1, "b": 0, "gone": 0, "\\": 0,
		} {
			found, err := inspector.List(e.ctx, base+prefix)
			e.applies(!errors.Is(err, errors.ErrUnsupported), "the server does not know the names: %v", err)
			e.check(err, "List")
			e.require(len(found) == want, "List of prefix %q returned %d held names; there are %d: %+v", prefix, len(found), want, found)
			for _, st := range found {
				e.require(st.Held && !st.Foreign && strings.HasPrefix(st.Name, base+prefix), "List of prefix %q returned a wrong status: %+v", prefix, st)
			}
		}
	}),
	quick("check", "contract: Check of a healthy server returns no error, its notices say what to do, and it affects no lock", func(e *Env) {
		p, other, name := e.two()
		checker := optional[driver.Checker](p)
		lease := p.claim(name)
		notices, err := checker.Check(e.ctx)
		e.check(err, "Check")
		for _, n := range notices {
			e.require(n.ID != "" && n.Text != "" && (n.Remedy != "" || n.Unknown), "a notice lacks its ID, text or remedy: %+v", n)
			e.noPassword(errors.New(n.Text + n.Remedy))
		}
		other.wantHeld(name, "its holder has not released the name")
		p.release(lease)
		other.wantFree(name, "the name was released")
	}),
)

// requeue releases old and claims name again, with req. The claim is abandoned when the case has ended.
func (p *party) requeue(name string, old driver.Lease) (lease driver.Lease, req driver.Request, released, err error) {
	req = p.queueing(name)
	p.abandonAtEnd(req)
	lease, released, err = optional[driver.Requeuer](p).Requeue(p.e.ctx, old, req)
	lease, err = p.e.sound(lease, err)
	return lease, req, released, err
}

// inspect inspects a name.
func (p *party) inspect(name string) driver.Status {
	st, err := optional[driver.Inspector](p).Inspect(p.e.ctx, name)
	p.e.check(err, "Inspect")
	return st
}

// shown is inspect for a backend that need not be an Inspector: then it shows nothing.
func (p *party) shown(name string) (st driver.Status) {
	if _, ok := driver.As[driver.Inspector](p.Backend); ok {
		st = p.inspect(name)
	}
	return st
}

// namesSessionOf reports whether shown, from Inspect, stands for the session of owner's claim. A server that does not know owner
// ids shows "session-", the session's number, and the start of owner's client part.
func (e *Env) namesSessionOf(shown, owner string) bool {
	client := driver.OwnerClient(shown)
	return e.caps.Ends == driver.EndsSession && strings.HasPrefix(shown, "session-") && client != "" && strings.HasPrefix(driver.OwnerClient(owner), client)
}
