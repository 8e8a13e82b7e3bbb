package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// claimant claims names through the driver, or through a client as a user does. Cases about abandoned claims run both ways.
type claimant struct {
	*Env
	what  string // "TryAcquire"
	claim func(ctx context.Context, name string) *outcome
	lag   time.Duration // how long after settle the name may stay taken
	rival mode          // in which another client claims a name that must be held, or free
}

// outcome is the result of a claim.
type outcome struct {
	err    error
	token  uint64 // the driver's
	held   func(other *party)
	settle func() // undoes what may be held after this result
}

// claimant claims through the driver. Its settle undoes what may be held.
func (p *party) claimant() *claimant {
	rival := p.mode.rival()
	return &claimant{Env: p.e, what: "TryAcquire", rival: rival, claim: func(ctx context.Context, name string) *outcome {
		req := p.patientRequest(name)
		lease, err := p.tryIn(ctx, req)
		a := &outcome{err: err, settle: func() { p.settle(req, lease, err) }, held: func(other *party) {}}
		if err == nil {
			a.token = lease.Grant().Token
			a.held = func(other *party) { other.in(rival).wantHeld(name, "the claim was granted") }
		}
		return a
	}}
}

// clientClaimant claims through a client, which undoes failed claims in the background.
func (e *Env) clientClaimant(lag time.Duration) *claimant {
	c := e.patient()
	return &claimant{Env: e, what: "Acquire", lag: lag, claim: func(ctx context.Context, name string) *outcome {
		lock, err := c.Acquire(ctx, name)
		a := &outcome{err: err, held: func(other *party) {}, settle: func() {
			if err == nil {
				_ = lock.Release(e.ctx)
				return
			}
			e.is(err, "a cut off or canceled Acquire must return context.Canceled or ErrUnavailable; it returned", context.Canceled, lockport.ErrUnavailable)
		}}
		if err == nil {
			a.token = token(lock) / driver.TokensPerGrant
			a.held = func(other *party) { e.heldAfterCut(other, lock) }
		}
		return a
	}}
}

// heldAfterCut checks that nobody else gets a lock that Acquire returned. Where claims end with their connection, a cut may
// have come after the grant. Then the holder must be told of the loss in time.
func (e *Env) heldAfterCut(other *party, lock *lockport.Lock) {
	const why = "Acquire, whose connection was cut, returned the lock"
	if !lock.Valid() {
		return
	}
	lease, err := other.try(other.request(lock.Name()))
	if err == nil && e.caps.Ends != driver.EndsTTL {
		e.lostWithin(lock, e.noticeTime(lock), fmt.Sprintf("%s, and then another claim was granted (token %d)", why, lease.Grant().Token))
		other.release(lease)
		return
	}
	e.refused(lease, err, why)
}

// claiming starts a claim.
func (a *claimant) claiming(name string) *call[*outcome] {
	return begin(a.Env, a.what, func(ctx context.Context) (*outcome, error) { return a.claim(ctx, name), nil })
}

// settled settles an outcome. Then other must get the name. settled returns the token of other's claim.
func (a *claimant) settled(answer *outcome, name string, other *party, how string) uint64 {
	answer.settle()
	return a.wantFreeIn(other, name, fmt.Sprintf("%s (%s) returned %v, and was undone unless that promises no effect", a.what, how, answer.err))
}

// wantFreeIn has other claim name as a rival, within the lag.
func (a *claimant) wantFreeIn(other *party, name, why string) uint64 {
	return other.in(a.rival).wantFreeIn(name, a.lag, why)
}

// abandonedMeanwhile cancels claims at random moments, and abandons them while their requests may still be under way.
func (p *party) abandonedMeanwhile(b *party) {
	e, name, rival := p.e, p.e.name(), b.in(p.mode.rival())
	start := time.Now()
	p.wantFree(e.name(), "the name is new")
	usual := time.Since(start)
	for range 40 {
		req := p.request(name)
		w := begin(e, "TryAcquire", func(ctx context.Context) (driver.Lease, error) { return p.TryAcquire(ctx, req) })
		<-time.After(rand.N(2*usual + time.Microsecond))
		w.cancel()
		p.abandon(req)
		rival.wantFree(name, "Abandon returned nil")
		_, _ = w.ended(endTime, "its context has ended")
		rival.wantFree(name, "Abandon had returned nil")
	}
}

// canceledAtAnyMoment cancels claims at random moments.
func (a *claimant) canceledAtAnyMoment() {
	other, start := a.party(), time.Now()
	a.settled(a.claim(a.ctx, a.name()), a.name(), other, "undisturbed")
	usual := time.Since(start)
	name := a.name()
	for range 50 {
		w := a.claiming(name)
		<-time.After(rand.N(usual + time.Microsecond))
		w.cancel()
		answer, _ := w.ended(endTime, "its context has ended")
		a.settled(answer, name, other, "canceled")
	}
	a.leftovers("everything was canceled or released")
}

// canceledAfterEachRequest cancels a claim when the server has received its first, second, … request and delays its replies.
func canceledAfterEachRequest(e *Env, fresh func() *claimant) {
	other := e.party().connected()
	const shortest, longest = 30 * time.Millisecond, endTime / 2
	for n, delay := int64(1), shortest; n <= 8; {
		a := fresh()
		name := e.name()
		e.delay(delay)
		before, start := e.requests(), time.Now()
		w := a.claiming(name)
		for e.requests() < before+n && !w.isOver() {
			<-time.After(time.Millisecond)
		}
		over, sent := w.isOver(), e.requests()-before
		e.applies(!over || sent > 0, "Faults.Requests counted no request")
		w.cancel()
		late := time.Since(start) >= time.Duration(n)*delay // the replies may have come first
		answer, _ := w.ended(endTime, "its context has ended")
		e.restore()
		a.settled(answer, name, other, fmt.Sprintf("canceled after request %d", n))
		e.leftovers(fmt.Sprintf("a claim was canceled after request %d, and undone", n))
		switch {
		case over && (sent < n || !late):
			return // a claim needs no more requests
		case !over && (!late || answer.err != nil):
			n++
		case delay < longest: // it was canceled too late: again, with more time
			delay = min(4*delay, longest)
		case n == 1:
			e.stalled()
		default:
			return
		}
	}
}

// cutAfterEachRequest cuts the connection after the first, second, … request of a claim. fresh makes a claimant that must connect.
func cutAfterEachRequest(e *Env, cancels bool, fresh func() *claimant) {
	other, name := e.observer(), e.name()
	last := uint64(0)
	for n, more := 1, true; more && n <= 8; n++ {
		a := fresh()
		var answer *outcome
		more = e.cutAfter(n, func(cut <-chan struct{}) {
			w := a.claiming(name)
			if cancels {
				select {
				case <-cut:
				case <-w.over:
				}
				w.cancel()
			}
			answer, _ = w.ended(callTime+endTime, "its connection was cut")
		})
		next := a.settled(answer, name, other, fmt.Sprintf("cut off after request %d", n))
		if answer.err == nil {
			e.rises(last, answer.token)
		}
		e.rises(max(last, answer.token), next)
		last = next
		e.leftovers(fmt.Sprintf("a claim was cut off after request %d, and undone", n))
	}
}

// replyToClaimLost drops the reply to a claim.
func (a *claimant) replyToClaimLost() {
	other := a.party().connected()
	a.claim(a.ctx, a.name()).settle()
	name := a.name()
	var answer *outcome
	a.replyLost(OpAcquire, func() { answer = a.claim(a.ctx, name) })
	a.require(!certain(answer.err) && !errors.Is(answer.err, driver.ErrHeld) || a.lag > 0,
		"the reply to a claim was lost, so its outcome is unknown; it returned: %w", answer.err)
	answer.held(other)
	answer.settle()
	a.rises(answer.token, a.wantFreeIn(other, name, "the claim was undone"))
	a.leftovers("the claim was undone or released")
}

// The size of cutTogether. Each round cuts the connections in another part of togetherTime.
const (
	togetherNames  = 48
	togetherRounds = 5
	togetherTime   = 25 * time.Millisecond
)

// cutTogether cuts the connections while many names are claimed.
func (a *claimant) cutTogether() {
	a.together(a.observer(), func(round int, claim func()) {
		const share = togetherTime / togetherRounds
		a.delay(10 * time.Millisecond)
		claim()
		a.sleep(time.Duration(round)*share + rand.N(share))
		a.cut()
	})
}

// together claims many names at once during a fault. Afterwards each name is either held, or free for other. Each round uses
// new names: a claim that was cut off may keep one server's vote of several until its TTL has passed.
func (a *claimant) together(other *party, fault func(round int, claim func())) {
	a.claim(a.ctx, a.name()).settle()
	hit := false // a claim failed: on a busy machine, all faults may come before the requests, or after the replies
	for round := 0; round < togetherRounds || !hit && round < 4*togetherRounds; round++ {
		var names [togetherNames]string
		var all [togetherNames]*call[*outcome]
		fault(round%togetherRounds, func() {
			for i := range names {
				names[i] = a.name()
				all[i] = a.claiming(names[i])
			}
		})
		for _, w := range all { // nobody holds the names: only the server can delay it
			_, _ = w.ended(callTime+a.takeover(), "nobody else wants the name, and the server answers again")
		}
		a.restore()
		for _, w := range all {
			hit = hit || w.result.err != nil
			if a.lag > 0 || a.caps.Ends == driver.EndsTTL && a.caps.FixedTTL == 0 { // elsewhere the cut may have ended a claim since its grant
				w.result.held(other)
			}
			w.result.settle()
		}
		for i, w := range all {
			why := fmt.Sprintf("%s (cut off together with others) returned %v, and was undone unless that promises no effect", a.what, w.result.err)
			a.rises(w.result.token, a.wantFreeIn(other, names[i], why))
		}
	}
	a.applies(hit, "the fault hit no claim")
	a.leftovers("everything was undone or released")
}
