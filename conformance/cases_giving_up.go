package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport"
)

const ruleGiveUp = "P6 cancellation: an Acquire that is cancelled returns in time and leaves nothing behind"

const ruleAmongMany = "P1 exclusion, P7 liveness: when some of many waiters are cancelled around a hand-off, those who stay get the name in turn, and nobody shares it"

const ruleTogether = "P6 cancellation: of many acquisitions that go to the server together and lose their replies each is held and usable, or leaves nothing for long"

// givingUpCases are about P6 at the client.
var givingUpCases = group("giving-up",
	quick("before", ruleGiveUp+" (its context had ended before)", func(e *Env) {
		ctx := e.ctx
		c := e.patient()
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, acquire := c.Acquire(over, e.name())
		_, try := c.TryAcquire(over, e.name())
		if !errors.Is(acquire, context.Canceled) || !errors.Is(try, context.Canceled) {
			e.failf("Acquire returned: %w; TryAcquire: %w", orNone(acquire), orNone(try))
		}
		e.leftovers(soon, "nothing was asked for")
	}),
	quick("while-claiming", ruleGiveUp+" (cancelled at random moments of a claim that nobody hinders)", func(e *Env) {
		c, other := e.patient(), e.party()
		start := time.Now()
		e.release(e.acquire(c, e.name()))
		usual := time.Since(start)
		for range 40 {
			name := e.name()
			w := e.begin(c, name)
			<-time.After(rand.N(usual + time.Microsecond))
			if err := w.giveUp(); err != nil && !errors.Is(err, context.Canceled) {
				e.failf("a cancelled Acquire returned: %w", err)
			}
			other.release(other.takes(name, soon, "Acquire was cancelled, or its lock released"))
		}
		e.leftovers(soon, "everything was cancelled or released")
	}),
	quick("while-waiting", ruleGiveUp+" (cancelled while it waits for another client)", func(e *Env) {
		a, c := e.patient(), e.party()
		l := e.acquire(a, e.name())
		b := e.open(e.cfg.Target)
		w := e.begin(e.patientOf(b), l.Name())
		w.waits(b, "the name is held")
		if err := w.giveUp(); !errors.Is(err, context.Canceled) || !errors.Is(err, lockport.ErrHeld) {
			e.failf("a cancelled Acquire that waited returned: %w", orNone(err))
		}
		e.release(l)
		c.release(c.takes(l.Name(), soon, "the only one who waited was cancelled"))
		e.leftovers(soon, "everything was cancelled or released")
	}),
	full("at-the-hand-off", ruleGiveUp+" (cancelled at the moment at which another client releases the name)", func(e *Env) {
		a, b, other := e.patient(), e.patient(), e.party()
		atTheHandOff(e, a, b, nil, other)
	}),
	quick("at-the-hand-off-inside", ruleGiveUp+" (cancelled at the moment at which the same client hands the name over)", func(e *Env) {
		a, other := e.patient(), e.party()
		atTheHandOff(e, a, a, nil, other)
	}),
	full("next-in-line", "P7 liveness: when the first of two waiters is cancelled at the moment of the hand-off, the second gets the name", func(e *Env) {
		a, b, c := e.patient(), e.patient(), e.patient()
		atTheHandOff(e, a, b, c, e.party())
	}),
	quick("next-in-line-inside",
		"P7 liveness: when the first of two waiters of one client is cancelled at the moment of the hand-off, the second gets the name", func(e *Env) {
			a := e.patient()
			atTheHandOff(e, a, a, a, e.party())
		}),
	full("among-many", ruleAmongMany+" (goroutines of three clients)", func(e *Env) { amongMany(e, e.patient(), e.patient(), e.patient()) }).alone(),
	quick("among-many-inside", ruleAmongMany+" (goroutines of one client)", func(e *Env) { amongMany(e, e.patient()) }).alone(),
	full("many-cut-off", ruleTogether+" (their connection was cut)", cutInTheMiddle).needing(NeedDelay, NeedCut, NeedDirect),
	full("many-reply-lost", ruleTogether+" (the reply to one of them was lost, and with it those of all that went together)", replyLost).needing(NeedDropReply),
	full("silent-server", ruleGiveUp+", although the server is silent", func(e *Env) {
		c, other := e.patient(), e.observer()
		e.release(e.acquire(c, e.name()))
		names := []string{e.name(), e.name()}
		e.freeze()
		for i, name := range names {
			acquire := c.Acquire
			if i == 1 {
				acquire = c.TryAcquire
			}
			err := e.endsInTime("Acquire", func(ctx context.Context) error { _, err := acquire(ctx, name); return err })
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lockport.ErrUnavailable) {
				e.failf("it returned: %w", orNone(err))
			}
		}
		e.restore()
		for _, name := range names {
			other.release(other.takes(name, e.ttl+callTime, "the server is back, and what was claimed is undone in the background"))
		}
		e.sleep(e.ttl / 5)
		for _, name := range names {
			other.release(other.takes(name, soon, "all was undone"))
		}
		e.leftovers(soon, "everything was undone")
	}).needing(NeedFreeze, NeedDirect),
	full("after-each-request", ruleGiveUp+" (context cancelled after the first, the second, … request)", func(e *Env) {
		other := e.party()
		other.free(e.name(), "the name is new")
		for n := int64(1); n <= 8; n++ {
			c := e.patient() // a new one, so that connecting is among what is cut short
			name := e.name()
			e.delay(20 * time.Millisecond)
			before := e.requests()
			w := e.begin(c, name)
			enough := false
			for e.requests() < before+n && !enough {
				select {
				case <-w.over:
					enough = true
				case <-time.After(time.Millisecond):
				}
			}
			err := w.giveUp()
			e.restore()
			if err != nil && !errors.Is(err, context.Canceled) {
				e.failf("an Acquire that was cancelled after request %d returned: %w", n, err)
			}
			other.release(other.takes(name, soon, fmt.Sprintf("Acquire was cancelled after request %d", n)))
			e.leftovers(soon, fmt.Sprintf("Acquire was cancelled after request %d", n))
			if enough {
				return
			}
		}
	}).needing(NeedDelay, NeedRequests),
	full("cut-after-each-request", ruleGiveUp+" (connection cut, and context cancelled, after the first, the second, … request)", func(e *Env) {
		other := e.observer()
		for n := 1; n <= 8; n++ {
			c := e.patient()
			name := e.name()
			cut := e.cutAfter(n)
			w := e.begin(c, name)
			done := false
			select {
			case <-cut:
				done = true
			case <-w.over:
				done = happened(cut)
			}
			err := w.giveUp()
			e.restore()
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, lockport.ErrUnavailable) {
				e.failf("an Acquire that was cut off and cancelled after request %d returned: %w", n, err)
			}
			other.release(other.takes(name, soon+callTime, fmt.Sprintf("Acquire was cut off and cancelled after request %d", n)))
			e.leftovers(soon, fmt.Sprintf("Acquire was cut off and cancelled after request %d", n))
			if !done {
				return
			}
		}
	}).needing(NeedCutAfter, NeedDirect),
	full("acquire-reply-lost",
		"P6 cancellation: an Acquire whose reply was lost either gets the lock in the end or leaves nothing for longer than the TTL", func(e *Env) {
			ctx := e.ctx
			c, other := e.patient(), e.party()
			other.free(e.name(), "the name is new")
			e.release(e.acquire(c, e.name()))
			name := e.name()
			lost := e.dropReply(OpAcquire)
			l, err := c.Acquire(ctx, name)
			e.mustHappen(lost, "the reply to a claim was to be lost")
			switch {
			case err == nil:
				e.stays(l, other, "Acquire returned the lock")
				e.release(l)
			case !errors.Is(err, lockport.ErrUnavailable):
				e.failf("Acquire returned: %w", err)
			}
			other.release(other.takes(name, e.takeover(), "the claim was undone in the background, or released"))
			e.leftovers(soon, "the claim was undone, or released")
		}).needing(NeedDropReply),
	full("release-server-gone",
		"P6 cancellation: a Release that cannot reach the server says so, in time, and frees the name as soon as the server is back", func(e *Env) {
			releaseWithoutServer(e, e.sever)
		}).needing(NeedSever, NeedDirect),
	full("release-silent-server",
		"P6 cancellation: a Release to which the server says nothing says so after 5 s, and frees the name as soon as the server is back", func(e *Env) {
			releaseWithoutServer(e, e.freeze)
		}).needing(NeedFreeze, NeedDirect),
	full("release-reply-lost", "P4 ownership: a Release whose reply was lost frees the name, says so or that it does not know, and harms nobody later", func(e *Env) {
		c, other := e.patient(), e.party()
		other.free(e.name(), "the name is new")
		l := e.acquire(c, e.name())
		lost := e.dropReply(OpRelease)
		err := l.Release(e.ctx)
		e.mustHappen(lost, "the reply to a release was to be lost")
		if err != nil && !errors.Is(err, lockport.ErrUnavailable) {
			e.failf("Release returned: %w", err)
		}
		next := other.takes(l.Name(), soon, "the release was carried out")
		e.sleep(e.ttl / 4) // what the client does in the background must leave the next holder alone
		_ = l.Release(e.ctx)
		e.stillHolds(other, l.Name(), next, "the release whose reply was lost was repeated")
	}).needing(NeedDropReply),
)

// atTheHandOff has first wait, and be cancelled at about the moment at which holder releases the name. then second, which waits
// behind it, must get the name; nil: nobody waits behind it, and other must.
func atTheHandOff(e *Env, holder, first, second *lockport.Client, other *party) {
	name := e.name()
	for round := range 30 {
		l := e.acquire(holder, name)
		w := e.begin(first, name)
		w.notYet(rand.N(3*time.Millisecond), "the name is held")
		var behind *acquiring
		if second != nil {
			behind = e.begin(second, name)
			behind.notYet(rand.N(2*time.Millisecond), "the name is held")
		}
		switch round % 3 {
		case 0: // it still stands in the queue when the name is handed on, and has given up already
			w.cancel()
			e.release(l)
		case 1: // it has got the name, and not looked yet
			e.release(l)
			w.cancel()
		case 2:
			cancelled := make(chan struct{})
			go func() {
				defer close(cancelled)
				<-time.After(rand.N(500 * time.Microsecond))
				w.cancel()
			}()
			<-time.After(rand.N(500 * time.Microsecond))
			e.release(l)
			<-cancelled
		}
		if err := w.giveUp(); err != nil && !errors.Is(err, context.Canceled) {
			e.failf("a cancelled Acquire returned: %w", err)
		}
		if behind != nil {
			e.release(behind.granted(soon, "the first waiter was cancelled, or has released the name"))
		}
		other.release(other.takes(name, soon, "everybody has released the name or was cancelled"))
	}
}

// releaseWithoutServer releases a lock while its server is away.
func releaseWithoutServer(e *Env, fault func()) {
	other := e.observer()
	l := e.acquire(e.patient(), e.name())
	fault()
	start := time.Now()
	err := l.Release(e.ctx)
	took := time.Since(start)
	if took > callTime+endTime {
		e.failf("Release took %v", took)
	}
	if err == nil && !other.isFree(l.Name()) {
		e.failf("Release returned nil, and the name is still taken")
	}
	if err != nil && !errors.Is(err, lockport.ErrUnavailable) && !errors.Is(err, lockport.ErrLost) {
		e.failf("Release returned: %w", err)
	}
	if l.Valid() {
		e.failf("the lock is still valid after Release returned: %w", orNone(err))
	}
	e.restore()
	other.release(other.takes(l.Name(), soon+callTime, "the server is back, and the lock was released"))
}
