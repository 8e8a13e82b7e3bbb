package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockport/lockport"
)

const ruleGiveUp = "P6 cancellation: a canceled Acquire returns in time and leaves nothing behind"

const ruleHandOff = "P1 exclusion, P7 liveness: when waiters are canceled around a hand-off, the others are granted the name in turn, and nothing is left"

const ruleTogether = "P6 cancellation: of many acquisitions that lose their replies together, each is held and usable, or leaves nothing for long"

// givingUpCases test P6 of the client.
var givingUpCases = group("giving-up",
	quick("while-claiming", ruleGiveUp+" (canceled at random moments, on a free name)",
		func(e *Env) { e.clientClaimant(soon).canceledAtAnyMoment() }),
	full("at-the-hand-off", ruleHandOff+" (of three clients)", func(e *Env) { atTheHandOff(e, e.patient(), e.patient(), e.patient()) }).alone().within(3*time.Minute),
	quick("at-the-hand-off-inside", ruleHandOff+" (of one client)", func(e *Env) { atTheHandOff(e, e.patient()) }).alone(),
	full("many-cut-off", ruleTogether+" (their connections were cut)",
		func(e *Env) { e.clientClaimant(soon + callTime).cutTogether() }, "Delay", "Cut", "Direct"),
	full("many-reply-lost", ruleTogether+" (one lost reply takes the replies to all others with it)", func(e *Env) {
		other := e.party().connected()
		e.clientClaimant(soon+callTime).together(other, func(_ int, claim func()) { e.replyLost(OpAcquire, claim) })
	}, "DropReply"),
	full("silent-server",
		ruleGiveUp+", even on a silent server; a Release returns an error after 5 s, and frees the name once the server is back",
		withoutServer((*Env).freeze, false), "Freeze", "Direct"),
	full("server-gone",
		ruleGiveUp+", even on an unreachable server, where the first Acquire of a name returns ErrUnavailable; Release frees the name once the server is back",
		withoutServer((*Env).sever, true), "Sever", "Direct"),
	full("after-each-request", ruleGiveUp+" (context canceled after each request)", func(e *Env) {
		canceledAfterEachRequest(e, func() *claimant { return e.clientClaimant(soon) })
	}, "Delay", "Requests"),
	full("cut-after-each-request", ruleGiveUp+" (connection cut and context canceled after each request)", func(e *Env) {
		cutAfterEachRequest(e, true, func() *claimant { return e.clientClaimant(soon + callTime) })
	}, "CutAfter", "Direct"),
	full("acquire-reply-lost", "P6 cancellation: an Acquire whose reply was lost gets the lock in the end, or leaves nothing for longer than the TTL",
		func(e *Env) { e.clientClaimant(e.takeover()).replyToClaimLost() }, "DropReply"),
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

// atTheHandOff cancels a waiter, the first of two, or some of many while a name is handed off. The others must get it, and then
// another client. The holder and the waiters belong to the clients in turn.
func atTheHandOff(e *Env, clients ...*lockport.Client) {
	other, name, inside := e.party(), e.name(), newHolders()
	for round := range 90 {
		waiters, limit := [...]int{1, 2, 10}[round%3], soon
		l := e.acquire(clients[0], name)
		leave, err := inside.enter(0, l)
		e.check(err, "before a hand-off")
		var all []*call[struct{}]
		for i := range waiters {
			all = append(all, e.start("Acquire", func(ctx context.Context) error {
				return inside.acquire(ctx, e, clients[(i+1)%len(clients)], name, 100*time.Microsecond)
			}))
			if waiters <= 2 || i == waiters-1 {
				all[i].notYet(rand.N(2*time.Millisecond), "the name is held")
			}
		}
		gaveUp, cancel := make([]bool, waiters), all[0].cancel
		gaveUp[0] = true
		if waiters > 2 {
			limit += e.takeover()
			cancel = func() {
				for i, w := range all {
					if gaveUp[i] = rand.IntN(3) > 0; gaveUp[i] { // before the release, at it, or while the name passes through the queue
						time.AfterFunc(rand.N(time.Duration(1+round/3%3)*400*time.Microsecond), w.cancel)
					}
				}
			}
		}
		e.check(leave(), "at a hand-off")
		aroundTheRelease(round/3, cancel, func() { e.release(l) })
		for i, w := range all {
			_, err := w.ended(limit, "the name was released, and its holders gave up or released it")
			if !gaveUp[i] || !errors.Is(err, context.Canceled) {
				e.check(err, "around a hand-off")
			}
		}
		e.rises(inside.lastToken(), other.wantFreeIn(name, soon, "all waiters released the name or were canceled"))
	}
	e.leftovers("all waiters released the name or were canceled")
}

// withoutServer makes a case of a client whose server fault keeps out of reach. gone says that the client sees that.
func withoutServer(fault func(*Env), gone bool) func(*Env) {
	return func(e *Env) {
		c, other := e.patient(), e.observer()
		l := e.acquire(c, e.name())
		names := []string{e.name(), e.name(), l.Name()}
		fault(e)
		err := e.inTime("Release", 2*callTime, callTime+endTime, l.Release)
		e.is(err, "Release must return nil, ErrUnavailable or ErrLost; it returned", nil, lockport.ErrUnavailable, lockport.ErrLost)
		if err == nil {
			next, err := other.try(other.request(l.Name()))
			e.check(err, "Release returned nil, and the name is still taken")
			other.release(next)
		}
		e.require(!l.Valid(), "the lock is still valid after Release, which returned: %w", err)
		calls := []func(context.Context, string, ...lockport.AcquireOption) (*lockport.Lock, error){c.Acquire, c.TryAcquire}
		for _, i := range slices.Concat(rand.Perm(2), rand.Perm(2)) {
			err := e.endsInTime("Acquire", func(ctx context.Context) error { return errOf(calls[i](ctx, names[i])) })
			e.require(err != nil, "Acquire succeeded, "+orNoFault)
			e.require(!errors.Is(err, lockport.ErrHeld), "nobody holds the name, yet Acquire returned: %w", err)
			e.is(err, "it must return context.DeadlineExceeded or ErrUnavailable; it returned", context.DeadlineExceeded, lockport.ErrUnavailable)
		}
		for _, name := range names[:2] {
			if gone {
				err := e.inTime("Acquire", 4*callTime, 2*callTime, func(ctx context.Context) error { return errOf(c.Acquire(ctx, name)) })
				e.is(err, "P10 errors: Acquire must return ErrUnavailable; it returned", lockport.ErrUnavailable)
			}
		}
		e.restore()
		for _, name := range names {
			other.wantFreeIn(name, e.ttl+callTime, "the server is back, and the client undoes its claims and releases in the background")
		}
		e.sleep(e.ttl / 5)
		for _, name := range names {
			other.wantFreeIn(name, soon, "all claims were undone or released")
			e.eventually(e.takeover()+callTime, func() bool {
				again, err := c.Acquire(e.ctx, name)
				if err == nil {
					e.release(again)
				}
				return err == nil
			}, "the server is back, so Acquire succeeds")
		}
		e.leftovers("all claims were undone or released")
	}
}
