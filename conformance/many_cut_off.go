package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// What many ask for at once, so that it goes to the server together, and what then becomes of it.

const (
	// togetherNames is how many names are asked for at once.
	togetherNames = 48
	// togetherRounds is how often.
	togetherRounds = 5
	// togetherTime is how long after that the connections are cut at the latest.
	togetherTime = 25 * time.Millisecond
)

// cutInRound cuts the connections at a random moment of the round's share of togetherTime: so the rounds together cover all of it.
func (e *Env) cutInRound(round int) {
	const share = togetherTime / togetherRounds
	e.sleep(time.Duration(round)*share + rand.N(share))
	e.cut()
}

// newNames makes names for a round. Each has its own: where several servers vote, one that was cut off may keep the vote of a claim that had no effect until its TTL
// has passed, and two such votes would hinder others.
func newNames(e *Env) []string {
	names := make([]string, togetherNames)
	for i := range names {
		names[i] = e.name()
	}
	return names
}

// acquiredTogether has goroutines of one client acquire names at once, several times, each time with a fault that begin produces before and hit in the middle of it. What
// the fault is stays open; afterwards each name is either held, or to be had by other.
func acquiredTogether(e *Env, other *party, begin func(), hit func(round int)) {
	c := e.patient()
	e.release(e.acquire(c, e.name()))
	for round := range togetherRounds {
		names := newNames(e)
		begin()
		all := make([]*acquiring, len(names))
		for i, name := range names {
			all[i] = e.begin(c, name)
		}
		hit(round)
		last := make([]uint64, len(names))
		for i, w := range all {
			// Nobody has the names, so it waits for nothing but the server.
			err := w.ended(callTime+e.takeover(), "nobody else wants the name, and the server is well again")
			switch {
			case err == nil:
				last[i] = token(w.lock) / driver.TokensPerGrant
			case !errors.Is(err, lockport.ErrUnavailable):
				e.failf("an Acquire that was cut off returned: %w", err)
			}
		}
		e.restore()
		for i, w := range all {
			if w.err != nil {
				continue
			}
			if w.lock.Valid() {
				cutOffWith(e, other, w.lock, names[i])
			}
			_ = w.lock.Release(e.ctx)
		}
		for i, name := range names {
			next := other.takes(name, soon+callTime, fmt.Sprintf("Acquire, cut off together with others, returned %v, and was undone in the background or released",
				all[i].err))
			e.rises(last[i], next.Grant().Token)
			other.release(next)
		}
	}
	e.leftovers(soon, "everything was undone or released")
}

// claimedTogether is acquiredTogether for the driver's TryAcquire.
func claimedTogether(e *Env) {
	a, other := e.party(), e.observer()
	a.free(e.name(), "the name is new")
	for round := range togetherRounds {
		names := newNames(e)
		reqs, leases, errs := make([]driver.Request, len(names)), make([]driver.Lease, len(names)), make([]error, len(names))
		e.delay(10 * time.Millisecond)
		var all sync.WaitGroup
		for i, name := range names {
			reqs[i] = a.patientRequest(name) // what is granted does not end while the others are looked at
			all.Go(func() {
				ctx, cancel := e.timed()
				defer cancel()
				leases[i], errs[i] = a.TryAcquire(ctx, reqs[i])
			})
		}
		e.cutInRound(round)
		all.Wait()
		e.restore()
		for i, name := range names {
			lease, err := a.sound(leases[i], errs[i])
			var before uint64
			if err == nil {
				before = lease.Grant().Token
				if gone := a.releases(lease); errors.Is(gone, driver.ErrLost) && e.caps.Ends == driver.EndsTTL && e.caps.FixedTTL == 0 {
					e.failf("a claim was granted, and gone before it was released: %w", gone)
				}
				a.abandon(reqs[i]) // the cut may have come between the grant and the release
			} else {
				a.settle(reqs[i], lease, err)
			}
			e.rises(before, other.free(name, fmt.Sprintf("TryAcquire, cut off together with others, returned %v, and was undone where that says it may have had an effect", err)))
		}
	}
	e.leftovers(soon, "everything was undone or released")
}

// cutInTheMiddle are the faults of acquiredTogether that cut off what is under way.
func cutInTheMiddle(e *Env) {
	acquiredTogether(e, e.observer(), func() { e.delay(10 * time.Millisecond) }, e.cutInRound)
}

// replyLost is the fault of acquiredTogether that loses one reply, and with it those of all that went together.
func replyLost(e *Env) {
	var lost <-chan struct{}
	other := e.party()
	other.free(e.name(), "the name is new")
	acquiredTogether(e, other, func() { lost = e.dropReply(OpAcquire) }, func(int) { e.mustHappen(lost, "the reply to a claim was to be lost") })
}

// cutOffWith checks that nobody else gets what an Acquire returned that was cut off together with others. Where claims end with their connection, the cut may have come
// between the grant and the look; then its holder must be told in time.
func cutOffWith(e *Env, other *party, lock *lockport.Lock, name string) {
	const why = "Acquire, cut off together with others, returned the lock"
	if e.caps.Ends == driver.EndsTTL {
		other.finds(name, why)
		return
	}
	lease, err := other.try(other.request(name))
	switch {
	case err == nil:
		e.lostWithin(lock, e.noticeTime(), fmt.Sprintf("%s, and another claim was granted (token %d)", why, lease.Grant().Token))
		other.release(lease)
	case !errors.Is(err, driver.ErrHeld):
		e.failf("%s, so another claim must be ErrHeld; it was: %w", why, err)
	}
}
