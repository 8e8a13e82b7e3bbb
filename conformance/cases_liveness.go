package conformance

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleOutage = "P7 liveness: a waiter survives an outage of the server and gets the lock afterwards"

// livenessCases test P7: every waiter gets its turn.
var livenessCases = group("liveness",
	full("hand-offs", "P7 liveness: no wake-up is lost: two clients that take turns each get the name when the other releases it", func(e *Env) {
		const rounds, slow = 40, 500 * time.Millisecond
		clients, name := []*lockport.Client{e.client(), e.client()}, e.name()
		holder, slowOnes := e.acquire(clients[0], name), 0
		for i := range rounds {
			next := e.begin(clients[(i+1)%2], name)
			next.notYet(time.Duration(i%5)*2*time.Millisecond, "the name is held") // next waits now, or is about to
			start := time.Now()
			e.release(holder)
			holder = next.granted(e.takeover(), "the name was released")
			if time.Since(start) > slow {
				slowOnes++
			}
		}
		e.release(holder)
		// A few wake-ups may come from the fallback poll. Missing notifications make every hand-off slow.
		e.require(e.caps.Wake == driver.WakePoll || slowOnes <= rounds/10,
			"Capabilities.Wake is %v, so waiters are told when a name is free, but in %d of %d hand-offs the next holder waited %v or more",
			e.caps.Wake, slowOnes, rounds, slow)
	}),
	full("many-names", "P7 liveness: a client that waits for many names is told of each release, unless Capabilities.Wake says that it polls", func(e *Env) {
		const names, slow = 40, 300 * time.Millisecond // slow: more than a busy machine needs, less than the interval of polls
		e.applies(!e.caps.Wake.Polls(), "Capabilities.Wake is %v", e.caps.Wake)
		locks, client := e.acquireMany(e.client(), names), e.client()
		var waiting []*call[*lockport.Lock]
		for _, l := range locks {
			waiting = append(waiting, e.begin(client, l.Name()))
		}
		waiting[0].notYet(300*time.Millisecond, "the name is held")
		slowOnes := 0
		for i, l := range slices.Backward(locks) { // backward: a client that polls names in turn must not find each just released
			start := time.Now()
			e.release(l)
			e.release(waiting[i].granted(e.takeover(), "the name was released"))
			if time.Since(start) > slow {
				slowOnes++
			}
			e.require(slowOnes <= names/4, "Capabilities.Wake is %v, but of the first %d of %d names a client got %d later than %v after their release",
				e.caps.Wake, names-i, names, slowOnes, slow)
		}
	}),
	full("no-starvation",
		"P7 liveness: where Contended or Fair is stated, goroutines that hand a name to each other do not keep it from a waiting client",
		func(e *Env) {
			e.applies(e.caps.Contended || e.caps.Fair != driver.FairNone, "neither Contended nor Fair is stated")
			c := e.client()
			served(e, soon, 16, 100*time.Microsecond, func(ctx context.Context, name string, _ int) (*lockport.Lock, error) { return c.Acquire(ctx, name) })
		}),
	full("server-gone", ruleOutage+" (unreachable)", func(e *Env) { waitThrough(e, e.sever) }, "Sever", "Direct"),
	full("server-frozen", ruleOutage+" (silent)", func(e *Env) { waitThrough(e, e.freeze) }, "Freeze", "Direct"),
	full("cut", ruleOutage+" (it closed the connections three times)", func(e *Env) {
		waitThrough(e, func() {
			for range 3 {
				e.cut()
				e.sleep(50 * time.Millisecond)
			}
		})
	}, "Cut", "Direct"),
	full("server-restarted", "P7 liveness: waiters survive a restart of the server; the held lock is kept, or its loss reported", func(e *Env) {
		l, b := e.acquire(e.client(), e.name()), e.party()
		next := e.beginAndWait(e.clientOf(b), b, l.Name())
		e.restart(true)
		select {
		case <-next.over: // the server forgot the holder
		case <-time.After(e.ttl / 2):
		}
		e.is(l.Release(e.ctx), "Release must return nil, ErrLost or ErrUnavailable; it returned", nil, lockport.ErrLost, lockport.ErrUnavailable)
		e.release(next.granted(e.takeover()+2*callTime, "the server is back and the name was released"))
	}, "Restart"),
)

// waitThrough has a client wait while its server is out of reach for longer than the TTL.
func waitThrough(e *Env, fault func()) {
	holder, b := e.acquire(e.clientOf(e.observer()), e.name()), e.party()
	c := e.clientOf(b)
	late := e.begin(c, holder.Name())
	early := e.beginAndWait(c, b, holder.Name())
	fault()
	early.notYet(e.ttl*5/4, "the name is held, and the server is out of reach")
	late.cancel() // giving up needs no server
	e.is(errOf(late.ended(endTime, "its context has ended")), "a cancelled Acquire must return context.Canceled; it returned", context.Canceled)
	e.release(holder)
	e.restore()
	e.release(early.granted(e.takeover()+2*callTime, "the server is back and the name was released"))
}

// starving is how many acquisitions by others starve a waiting client. Time alone does not: on a busy machine others make no progress either.
const starving = 500

// served has n goroutines acquire a name repeatedly, each for hold or a few times as long. With n of them, one always waits. Another
// client, with the options own, must get the name within limit, or before the others have acquired it starving times.
func served(e *Env, limit time.Duration, n int, hold time.Duration,
	acquire func(ctx context.Context, name string, i int) (*lockport.Lock, error), own ...lockport.AcquireOption) {
	c, name := e.client(), e.name()
	var holds atomic.Int64
	for i := range n {
		e.start("Acquire", func(ctx context.Context) error {
			for {
				l, err := acquire(ctx, name, i)
				switch {
				case err == nil:
					holds.Add(1)
					<-time.After(hold + time.Duration(i)*hold/2)
					_ = l.Release(e.ctx)
				case errors.Is(err, lockport.ErrHeld) && ctx.Err() == nil: // TryAcquire
					<-time.After(time.Millisecond)
				default:
					return err
				}
			}
		})
	}
	for range 4 {
		before := holds.Load()
		e.eventually(limit, func() bool { return holds.Load() >= before+16 }, "the other goroutines take turns")
		before = holds.Load()
		begun := time.Now()
		mine := begin(e, "Acquire", func(ctx context.Context) (*lockport.Lock, error) { return c.Acquire(ctx, name, own...) })
		e.eventually(8*limit, func() bool {
			starved := holds.Load() >= before+starving && time.Since(begun) > limit
			return mine.isOver() || starved
		}, "Acquire returns, while others hold the name for moments only")
		e.require(mine.isOver(), "others hold the name for moments only, but they acquired it %d times in %v while Acquire waited",
			holds.Load()-before, time.Since(begun))
		e.release(mine.granted(soon, "others hold the name for moments only"))
	}
}
