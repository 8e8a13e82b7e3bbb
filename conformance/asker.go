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

// asker asks for names, through the driver or as a user of a client does. What is asked for and given up is tried in both ways.
type asker struct {
	*Env
	what string // "TryAcquire"
	ask  func(ctx context.Context, name string) *asked
	lag  time.Duration // how long after an answer was settled others may find the name taken
	// rival is the mode of a claim that is excluded by what is asked for, and by nothing else.
	rival mode
}

// asked is the answer.
type asked struct {
	err    error
	token  uint64 // the driver's
	held   func(other *party)
	settle func() // undoes what may be held, as must be after this answer
}

// ask is through the driver: whoever asks undoes what may be held.
func (p *party) ask() *asker { return p.askAs((*party).request, (*party).request) }

// askAs is ask for claims of another mode.
func (p *party) askAs(as, rival mode) *asker {
	return &asker{Env: p.e, what: "TryAcquire", rival: rival, ask: func(ctx context.Context, name string) *asked {
		req := p.e.patiently(as(p, name))
		lease, err := p.tryIn(ctx, req)
		a := &asked{err: err, settle: func() { p.settle(req, lease, err) }, held: func(other *party) {}}
		if err == nil {
			a.token = lease.Grant().Token
			a.held = func(other *party) { other.findsAs(rival(other, name), "the claim was granted at last") }
		}
		return a
	}}
}

// ask is through a client, which undoes in the background what nobody got.
func (e *Env) ask(c *lockport.Client, lag time.Duration) *asker {
	return &asker{Env: e, what: "Acquire", lag: lag, rival: (*party).request, ask: func(ctx context.Context, name string) *asked {
		lock, err := c.Acquire(ctx, name)
		a := &asked{err: err, held: func(other *party) {}, settle: func() {
			if err == nil {
				_ = lock.Release(e.ctx)
				return
			}
			e.is(err, "an Acquire that was cut off or cancelled returned", context.Canceled, lockport.ErrUnavailable)
		}}
		if err == nil {
			a.token = token(lock) / driver.TokensPerGrant
			a.held = func(other *party) { e.heldAfterCut(other, lock) }
		}
		return a
	}}
}

// heldAfterCut checks that nobody else gets a lock that Acquire returned. Where claims end with their connection, a cut may have come
// between the grant and the look; then its holder must be told in time.
func (e *Env) heldAfterCut(other *party, lock *lockport.Lock) {
	const why = "Acquire, whose connection was cut, returned the lock"
	if !lock.Valid() {
		return
	}
	lease, err := other.try(other.request(lock.Name()))
	if err == nil && e.caps.Ends != driver.EndsTTL {
		e.lostWithin(lock, e.noticeTime(lock), fmt.Sprintf("%s, and another claim was granted (token %d)", why, lease.Grant().Token))
		other.release(lease)
		return
	}
	e.refused(lease, err, why)
}

// begin begins to ask.
func (a *asker) begin(name string) *call[*asked] {
	return begin(a.Env, a.what, func(ctx context.Context) (*asked, error) { return a.ask(ctx, name), nil })
}

// settled settles an answer, after which other must get the name. It returns the token of other's claim.
func (a *asker) settled(answer *asked, name string, other *party, how string) uint64 {
	answer.settle()
	return a.frees(other, name, fmt.Sprintf("%s, %s, returned %v, and was undone where that says it may have had an effect", a.what, how, answer.err))
}

// frees is the party's for a rival.
func (a *asker) frees(other *party, name, why string) uint64 {
	return other.freesOf(a.rival(other, name), a.lag, why)
}

// abandonedMeanwhile cancels requests at random moments, and abandons them while they may still be on their way.
func (p *party) abandonedMeanwhile(b *party, as, rival mode) {
	e, name := p.e, p.e.name()
	start := time.Now()
	p.freesOf(as(p, e.name()), 0, "the name is new")
	usual := time.Since(start)
	for range 40 {
		req := as(p, name)
		w := begin(e, "TryAcquire", func(ctx context.Context) (driver.Lease, error) { return p.TryAcquire(ctx, req) })
		<-time.After(rand.N(2*usual + time.Microsecond))
		w.cancel()
		p.abandon(req)
		b.freesOf(rival(b, name), 0, "Abandon returned nil")
		_, _ = w.ended(endTime, "its context has ended")
		b.freesOf(rival(b, name), 0, "Abandon had returned nil")
	}
}

// cancelledAtAnyMoment cancels requests at random moments.
func (a *asker) cancelledAtAnyMoment(other *party) {
	start := time.Now()
	a.settled(a.ask(a.ctx, a.name()), a.name(), other, "undisturbed")
	usual := time.Since(start)
	name := a.name()
	for range 50 {
		w := a.begin(name)
		<-time.After(rand.N(usual + time.Microsecond))
		w.cancel()
		answer, _ := w.ended(endTime, "its context has ended")
		a.settled(answer, name, other, "cancelled")
	}
	a.leftovers("everything was cancelled or released")
}

// cancelledAfterEachRequest cancels requests when the server has seen the first, the second, … of them, and answers late. fresh makes one who asks.
func cancelledAfterEachRequest(e *Env, other *party, fresh func() *asker) {
	for n := int64(1); n <= 8; n++ {
		a := fresh()
		name := e.name()
		e.delay(30 * time.Millisecond)
		before := e.requests()
		w := a.begin(name)
		for e.requests() < before+n && !w.isOver() {
			<-time.After(time.Millisecond)
		}
		enough := w.isOver()
		w.cancel()
		answer, _ := w.ended(endTime, "its context has ended")
		e.restore()
		a.settled(answer, name, other, fmt.Sprintf("cancelled after request %d", n))
		e.leftovers(fmt.Sprintf("a claim was cancelled after request %d, and undone", n))
		if enough {
			return // it needs no more requests than that
		}
	}
}

// cutAfterEachRequest cuts the connection after the first, the second, … request. fresh makes one who asks, so that connecting is among what is cut.
func cutAfterEachRequest(e *Env, cancels bool, fresh func() *asker) {
	other, name := e.observer(), e.name()
	last := uint64(0)
	e.afterEachRequest(8, func(n int, arm func() <-chan struct{}, over func()) {
		a := fresh()
		cut := arm()
		w := a.begin(name)
		if cancels {
			select {
			case <-cut:
			case <-w.over:
			}
			w.cancel()
		}
		answer, _ := w.ended(callTime+endTime, "its connection was cut")
		over()
		next := a.settled(answer, name, other, fmt.Sprintf("cut off after request %d", n))
		if answer.err == nil {
			e.rises(last, answer.token)
		}
		e.rises(max(last, answer.token), next)
		last = next
		e.leftovers(fmt.Sprintf("a claim was cut off after request %d, and undone", n))
	})
}

// replyToClaimLost loses the reply to a request.
func (a *asker) replyToClaimLost(other *party) {
	other.connected()
	a.ask(a.ctx, a.name()).settle()
	name := a.name()
	var answer *asked
	a.replyLost(OpAcquire, func() { answer = a.ask(a.ctx, name) })
	a.require(!certain(answer.err) && !errors.Is(answer.err, driver.ErrHeld) || a.lag > 0,
		"the claim was carried out and its reply lost, yet it was: %w", answer.err)
	answer.held(other)
	answer.settle()
	a.rises(answer.token, a.frees(other, name, "the claim was undone"))
	a.leftovers("the claim was undone, or released")
}

// What many ask for at once, so that it goes to the server together, is cut off at moments that the rounds share out.
const (
	togetherNames  = 48
	togetherRounds = 5
	togetherTime   = 25 * time.Millisecond
)

// cutTogether cuts the connections while many names are asked for.
func (a *asker) cutTogether(other *party) {
	a.together(other, func(round int, ask func()) {
		const share = togetherTime / togetherRounds
		a.delay(10 * time.Millisecond)
		ask()
		a.sleep(time.Duration(round)*share + rand.N(share))
		a.cut()
	})
}

// together asks for many names at once in the middle of a fault. Afterwards each name is either held or free for other.
// Each round uses new names: one that was cut off may keep the vote of one of several servers until its TTL has passed.
func (a *asker) together(other *party, fault func(round int, ask func())) {
	a.ask(a.ctx, a.name()).settle()
	for round := range togetherRounds {
		var names [togetherNames]string
		var all [togetherNames]*call[*asked]
		fault(round, func() {
			for i := range names {
				names[i] = a.name()
				all[i] = a.begin(names[i])
			}
		})
		for _, w := range all { // nobody has the names, so it waits for nothing but the server
			_, _ = w.ended(callTime+a.takeover(), "nobody else wants the name, and the server is well again")
		}
		a.restore()
		for _, w := range all {
			if a.lag > 0 || a.caps.Ends == driver.EndsTTL && a.caps.FixedTTL == 0 { // the cut may have come between the grant and the look
				w.result.held(other)
			}
			w.result.settle()
		}
		for i, w := range all {
			why := fmt.Sprintf("%s, cut off together with others, returned %v, and was undone or released", a.what, w.result.err)
			a.rises(w.result.token, a.frees(other, names[i], why))
		}
	}
	a.leftovers("everything was undone or released")
}
