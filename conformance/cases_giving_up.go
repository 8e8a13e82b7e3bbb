package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport"
)

const ruleGiveUp = "P6 cancellation: a cancelled Acquire returns in time and leaves nothing behind"

const ruleAmongMany = "P1 exclusion, P7 liveness: when some of many waiters are cancelled around a hand-off, the others are granted the name in turn"

const ruleTogether = "P6 cancellation: of many acquisitions that lose their replies together, each is held and usable, or leaves nothing for long"

// givingUpCases test P6 of the client.
var givingUpCases = group("giving-up",
	quick("while-claiming", ruleGiveUp+" (cancelled at random moments, on a free name)",
		func(e *Env) { e.claimantOf(e.patient(), soon).cancelledAtAnyMoment(e.party()) }),
	quick("while-waiting", ruleGiveUp+" (cancelled while it waits for another client)", func(e *Env) {
		l, b := e.acquire(e.patient(), e.name()), e.party()
		err := e.giveUp(e.beginAndWait(e.clientOf(b, lockport.TTL(e.longTTL())), b, l.Name()))
		e.require(errors.Is(err, context.Canceled) && errors.Is(err, lockport.ErrHeld), "a cancelled Acquire lacks Canceled or ErrHeld: %w", err)
		e.release(l)
		e.party().wantFreeIn(l.Name(), soon, "the only waiter was cancelled")
		e.leftovers("everything was cancelled or released")
	}),
	full("at-the-hand-off", ruleGiveUp+" (cancelled when another client releases the name)",
		func(e *Env) { atTheHandOff(e, e.patient(), e.patient(), nil) }),
	quick("at-the-hand-off-inside", ruleGiveUp+" (cancelled when the same client hands the name over)",
		func(e *Env) { c := e.patient(); atTheHandOff(e, c, c, nil) }),
	full("next-in-line", "P7 liveness: when the first of two waiters is cancelled at the hand-off, the second gets the name",
		func(e *Env) { atTheHandOff(e, e.patient(), e.patient(), e.patient()) }),
	quick("next-in-line-inside",
		"P7 liveness: when the first of two waiters of one client is cancelled at the hand-off, the second gets the name",
		func(e *Env) { c := e.patient(); atTheHandOff(e, c, c, c) }),
	full("among-many", ruleAmongMany+" (goroutines of three clients)", func(e *Env) { amongMany(e, e.patient(), e.patient(), e.patient()) }).alone(),
	quick("among-many-inside", ruleAmongMany+" (goroutines of one client)", func(e *Env) { amongMany(e, e.patient()) }).alone(),
	full("many-cut-off", ruleTogether+" (their connections were cut)",
		func(e *Env) { e.claimantOf(e.patient(), soon+callTime).cutTogether(e.observer()) }, "Delay", "Cut", "Direct"),
	full("many-reply-lost", ruleTogether+" (one lost reply takes the replies to all others with it)", func(e *Env) {
		other := e.party().connected()
		e.claimantOf(e.patient(), soon+callTime).together(other, func(_ int, claim func()) { e.replyLost(OpAcquire, claim) })
	}, "DropReply"),
	full("silent-server", ruleGiveUp+", even on a silent server", func(e *Env) {
		c, other := e.patient(), e.observer()
		e.release(e.acquire(c, e.name()))
		calls := map[string]func(context.Context, string, ...lockport.AcquireOption) (*lockport.Lock, error){
			e.name(): c.Acquire, e.name(): c.TryAcquire,
		}
		e.freeze()
		for name, acquire := range calls {
			err := e.endsInTime("Acquire", func(ctx context.Context) error { return errOf(acquire(ctx, name)) })
			e.is(err, "it must return context.DeadlineExceeded or ErrUnavailable; it returned", context.DeadlineExceeded, lockport.ErrUnavailable)
		}
		e.restore()
		for name := range calls {
			other.wantFreeIn(name, e.ttl+callTime, "the server is back, and the client undoes its claims in the background")
		}
		e.sleep(e.ttl / 5)
		for name := range calls {
			other.wantFreeIn(name, soon, "all claims were undone")
		}
		e.leftovers("all claims were undone")
	}, "Freeze", "Direct"),
	full("after-each-request", ruleGiveUp+" (context cancelled after each request)", func(e *Env) {
		cancelledAfterEachRequest(e, e.party().connected(), func() *claimant { return e.claimantOf(e.patient(), soon) })
	}, "Delay", "Requests"),
	full("cut-after-each-request", ruleGiveUp+" (connection cut and context cancelled after each request)", func(e *Env) {
		cutAfterEachRequest(e, true, func() *claimant { return e.claimantOf(e.patient(), soon+callTime) })
	}, "CutAfter", "Direct"),
	full("acquire-reply-lost", "P6 cancellation: an Acquire whose reply was lost gets the lock in the end, or leaves nothing for longer than the TTL",
		func(e *Env) { e.claimantOf(e.patient(), e.takeover()).replyToClaimLost(e.party()) }, "DropReply"),
	full("release-server-gone",
		"P6 cancellation: a Release that cannot reach the server returns an error in time, and frees the name once the server is back",
		func(e *Env) { releaseWithoutServer(e, e.sever) }, "Sever", "Direct"),
	full("release-silent-server",
		"P6 cancellation: a Release on a silent server returns an error after 5 s, and frees the name once the server is back",
		func(e *Env) { releaseWithoutServer(e, e.freeze) }, "Freeze", "Direct"),
	full("release-reply-lost", "P4 ownership: a Release whose reply was lost frees the name, returns nil or ErrUnavailable, and affects no later holder",
		func(e *Env) {
			c, other := e.patient(), e.party().connected()
			l := e.acquire(c, e.name())
			var err error
			e.replyLost(OpRelease, func() { err = l.Release(e.ctx) })
			e.is(err, "a Release whose reply was lost must return nil or ErrUnavailable; it returned", nil, lockport.ErrUnavailable)
			next := other.take(l.Name(), soon, "the release was carried out")
			e.sleep(e.ttl / 4) // the client's retries must not affect the next holder
			_ = l.Release(e.ctx)
			other.stillHolds(l.Name(), next, "the release whose reply was lost was repeated")
		}, "DropReply"),
)

// atTheHandOff has first wait, and cancels it around the release by holder. Then second, which waits behind it, must get the
// name. If second is nil, another client must.
func atTheHandOff(e *Env, holder, first, second *lockport.Client) {
	other, name := e.party(), e.name()
	for round := range 30 {
		l := e.acquire(holder, name)
		w := e.begin(first, name)
		w.notYet(rand.N(3*time.Millisecond), "the name is held")
		var behind *call[*lockport.Lock]
		if second != nil {
			behind = e.begin(second, name)
			behind.notYet(rand.N(2*time.Millisecond), "the name is held")
		}
		aroundTheRelease(round, w.cancel, func() { e.release(l) })
		e.is(e.giveUp(w), "a cancelled Acquire must return nil or context.Canceled; it returned", nil, context.Canceled)
		if behind != nil {
			e.release(behind.granted(soon, "the first waiter was cancelled, or released the name"))
		}
		other.wantFreeIn(name, soon, "all waiters released the name or were cancelled")
	}
}

// amongMany cancels some of many waiters while a name is handed off. The others must get it, and then another client.
func amongMany(e *Env, clients ...*lockport.Client) {
	const waiters = 10
	other, name, inside := e.party(), e.name(), newHolders()
	for round := range 25 {
		l := e.acquire(clients[0], name)
		leave, err := inside.enter(0, l)
		e.check(err, "before a hand-off")
		var all []*call[struct{}]
		for i := range waiters {
			all = append(all, begin(e, "Acquire", func(ctx context.Context) (struct{}, error) {
				return struct{}{}, inside.acquire(ctx, e, clients[i%len(clients)], name, 100*time.Microsecond)
			}))
		}
		all[waiters-1].notYet(rand.N(4*time.Millisecond), "the name is held")
		var gaveUp [waiters]bool
		for i, w := range all {
			if gaveUp[i] = rand.IntN(3) > 0; gaveUp[i] { // before the release, at it, or while the name passes through the queue
				time.AfterFunc(rand.N(time.Duration(1+round%3)*400*time.Microsecond), w.cancel)
			}
		}
		<-time.After(rand.N(200 * time.Microsecond))
		e.check(leave(), "at a hand-off")
		e.release(l)
		for i, w := range all {
			_, err := w.ended(e.takeover()+soon, "the name was released, and its holders gave up or released it")
			if !gaveUp[i] || !errors.Is(err, context.Canceled) {
				e.check(err, "around a hand-off")
			}
		}
		e.rises(inside.lastToken(), other.wantFreeIn(name, soon, "all waiters released the name or were cancelled"))
	}
}

// releaseWithoutServer releases a lock while its server is unreachable or silent.
func releaseWithoutServer(e *Env, fault func()) {
	other := e.observer()
	l := e.acquire(e.patient(), e.name())
	fault()
	start := time.Now()
	err := l.Release(e.ctx)
	took := time.Since(start)
	e.require(took <= callTime+endTime, "Release must return in time; it took %v", took)
	e.is(err, "Release must return nil, ErrUnavailable or ErrLost; it returned", nil, lockport.ErrUnavailable, lockport.ErrLost)
	if err == nil {
		next, err := other.try(other.request(l.Name()))
		e.check(err, "Release returned nil, and the name is still taken")
		other.release(next)
	}
	e.require(!l.Valid(), "the lock is still valid after Release, which returned: %w", err)
	e.restore()
	other.wantFreeIn(l.Name(), soon+callTime, "the server is back, and the lock was released")
}
