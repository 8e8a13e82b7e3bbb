package conformance

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// capabilitiesCases hold what a backend states of itself against what it has. What it states of order, tokens, wake-ups and
// notices is tried by the groups of those.
var capabilitiesCases = group("capabilities",
	quick("stated", "capabilities: they are complete, and the same at every call", func(e *Env) {
		p := e.party()
		a, b := p.Capabilities(), p.Capabilities()
		for _, c := range []driver.Capabilities{a, b} {
			// They panic if out of range.
			_ = [...]string{c.Ends.String(), c.Token.String(), c.Fair.String(), c.Wake.String(), c.Failover.String()}
		}
		if n := a.RemovalNotice; n != nil && n(e.ttl) != b.RemovalNotice(e.ttl) {
			e.failf("RemovalNotice(%v) is %v, then %v", e.ttl, n(e.ttl), b.RemovalNotice(e.ttl))
		}
		a.RemovalNotice, b.RemovalNotice = nil, nil // functions cannot be compared
		switch {
		case !reflect.DeepEqual(a, b):
			e.failf("Capabilities returned %+v, then %+v", a, b)
		case a.Backend == "":
			e.failf("Capabilities.Backend is empty")
		case a.Ends == driver.EndsNever:
			e.failf("Capabilities.Ends is EndsNever: a holder that dies would keep the lock for ever")
		case a.MinTTL < 0 || a.TTLGrain < 0 || a.FixedTTL < 0:
			e.failf("a duration is negative: %+v", a)
		case a.FixedTTL > 0 && a.FixedTTL < a.MinTTL:
			e.failf("FixedTTL %v is below MinTTL %v", a.FixedTTL, a.MinTTL)
		}
	}),
	quick("interfaces", "capabilities: what is stated of waiting and of detaching is implemented, and can be found through a wrapper", func(e *Env) {
		b := wrapped{e.party()}
		_, waiter := driver.As[driver.Waiter](b)
		_, notifier := driver.As[driver.Notifier](b)
		_, requeuer := driver.As[driver.Requeuer](b)
		_, attacher := driver.As[driver.Attacher](b)
		switch {
		case e.caps.Wake == driver.WakeNotify && !notifier:
			e.failf("Wake is WakeNotify, but no driver.Notifier is found")
		case (e.caps.Wake == driver.WakeQueue || e.caps.Wake == driver.WakeQueueOrPoll) && !waiter:
			e.failf("Wake is %v, but no driver.Waiter is found", e.caps.Wake)
		case e.caps.Wake == driver.WakePoll && (notifier || waiter):
			e.failf("Wake is WakePoll, but the backend is a driver.Notifier: %t, a driver.Waiter: %t", notifier, waiter)
		case e.caps.Fair == driver.FairFIFO && !waiter && !e.caps.Queue:
			e.failf("Fair is FairFIFO, but there is neither a driver.Waiter nor a queue")
		case e.caps.Detach != attacher:
			e.failf("Detach is %t, but that the backend is a driver.Attacher is %t", e.caps.Detach, attacher)
		case requeuer && !waiter && !e.caps.Queue:
			e.failf("the backend is a driver.Requeuer, but there is neither a driver.Waiter nor a queue")
		}
	}),
	quick("smallest-ttl", "capabilities: a TTL of MinTTL is accepted, and one below it is ErrRefused", func(e *Env) {
		p := e.party()
		if e.caps.FixedTTL > 0 {
			e.notRun("the session has one TTL")
		}
		smallest := max(e.caps.MinTTL, time.Millisecond)
		if e.caps.MinTTL > 0 {
			p.refusesTTL(smallest - time.Millisecond)
		}
		req := p.request(e.name())
		req.TTL = smallest
		// With the smallest TTL that there is, the answer may come too late to be of use, but it is no refusal.
		lease, err := p.try(req)
		if err == nil {
			_ = p.releases(lease)
			return
		}
		e.require(!errors.Is(err, driver.ErrRefused), "MinTTL is %v, yet a claim with a TTL of %v was: %w", e.caps.MinTTL, smallest, err)
		p.abandon(req)
	}),
	quick("fixed-ttl", "capabilities: where FixedTTL is stated, no other TTL is accepted: ErrRefused by the driver, errors.ErrUnsupported by the client", func(e *Env) {
		if e.caps.FixedTTL == 0 {
			e.notRun("each claim has a TTL of its own")
		}
		another := e.caps.FixedTTL + time.Second
		e.party().refusesTTL(another)
		_, err := e.client().TryAcquire(e.ctx, e.name(), lockport.TTL(another))
		e.is(err, "TryAcquire with another TTL returned", errors.ErrUnsupported)
	}),
	full("grain", "capabilities: a TTL is rounded up to TTLGrain, never down: the claim lasts for the TTL that was asked for", func(e *Env) {
		if e.caps.FixedTTL > 0 || e.caps.Ends != driver.EndsTTL {
			e.notRun("claims have no TTL of their own")
		}
		a, b, name := e.two()
		req := a.request(name)
		req.TTL = e.ttl + max(e.caps.TTLGrain/3, 37*time.Millisecond)
		sent := time.Now()
		left := time.Until(a.claimOf(req).Grant().Until)
		most := roundUp(req.TTL, e.caps.TTLGrain)
		e.require(left <= most, "the validity left is %v; the TTL was %v, which the grain %v makes %v", left, req.TTL, e.caps.TTLGrain, most)
		b.frees(name, e.takeover()+most-e.ttl, "a claim that is not renewed ends with its TTL")
		lasted := time.Since(sent)
		e.require(lasted >= req.TTL, "a claim with a TTL of %v lasted for %v", req.TTL, lasted)
	}),
	full("prompt", "capabilities: where Prompt is stated, TryAcquire returns within 100 ms of its context's end, whatever the server does", prompt, "Freeze"),
	quick("require", "capabilities: lockport.Require fails for exactly what is not stated", func(e *Env) {
		for requirement, stated := range map[lockport.Requirement]bool{
			lockport.NeedTokens:               e.caps.Token >= driver.TokenData,
			lockport.NeedTokensAcrossFailover: e.caps.Token >= driver.TokenFailover,
			lockport.NeedFailoverSafety:       e.caps.Failover == driver.FailoverSafe,
			lockport.NeedFairOrder:            e.caps.Fair >= driver.FairAdvice,
			lockport.NeedNoPolling:            !e.caps.Wake.Polls(),
		} {
			_, err := lockport.New(e.party(), lockport.TTL(e.ttl), lockport.Require(requirement))
			if stated != (err == nil) || err != nil && !errors.Is(err, errors.ErrUnsupported) {
				e.failf("requirement %d is met: %t, but New returned: %w", requirement, stated, err)
			}
		}
	}),
)

// prompt makes claims whose contexts end while the server is silent: on a connection that is there, on a new one, and many at once.
func prompt(e *Env) {
	if !e.caps.Prompt {
		e.notRun("Capabilities.Prompt is not stated")
	}
	connected, fresh := e.party().connected(), e.party()
	e.freeze()
	const rounds, together, limit, most = 3, 4, 50 * time.Millisecond, 100 * time.Millisecond
	tooLate, longest := 0, time.Duration(0)
	for i := range rounds {
		p := []*party{connected, fresh}[i%2]
		late := make(chan time.Duration, together)
		stalled := e.stalls(func() {})
		e.storm(together, func(ctx context.Context, _ int) error {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			start := time.Now()
			_, err := p.TryAcquire(ctx, p.request(e.name()))
			late <- time.Since(start) - limit
			if err == nil {
				return errors.New("a claim was granted by a server that is silent")
			}
			return nil
		})
		machine := 2 * stalled() // for the end of the context, and for the return
		for range together {
			d := <-late - machine
			longest = max(longest, d)
			if d > most {
				tooLate++
			}
		}
	}
	const calls = rounds * together
	e.require(tooLate <= calls/4 && longest <= endTime, // the machine may have been busy for a moment that nobody saw
		"of %d calls %d returned later than %v after their context's end, one %v", calls, tooLate, most, longest)
}

// wrapped is a plain wrapper, as one that counts or traces calls would be.
type wrapped struct{ driver.Backend }

// Unwrap implements driver.Unwrapper.
func (w wrapped) Unwrap() driver.Backend { return w.Backend }

// refusesTTL checks that a claim with this TTL is ErrRefused.
func (p *party) refusesTTL(ttl time.Duration) {
	req := p.request(p.e.name())
	req.TTL = ttl
	_, err := p.try(req)
	p.e.require(errors.Is(err, driver.ErrRefused), "a claim with a TTL of %v, which the capabilities exclude, was not ErrRefused but: %w", ttl, err)
}
