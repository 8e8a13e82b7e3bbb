package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleOutage = "P7 liveness: a waiter survives an outage of the server and gets the lock afterwards"

// manyNames has one client wait for more names than most servers allow connections.
func manyNames(e *Env) {
	const names, slow = 40, 300 * time.Millisecond // slow: more than a busy machine needs, less than the interval of polls
	if e.caps.Wake.Polls() {
		e.notRun("Capabilities.Wake is %v", e.caps.Wake)
	}
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
}

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
	full("many-names", "P7 liveness: a client that waits for many names is told of each release, unless Capabilities.Wake says that it polls", manyNames),
	quick("first-in-first-out", "P7 liveness: inside a process waiters are served first in, first out", func(e *Env) {
		c := e.client()
		e.tryOrder(c, 8, 4, func(name string, attempt int) *call[*lockport.Lock] {
			w := e.begin(c, name)
			w.notYet(3*time.Millisecond<<(2*attempt), "the name is held")
			return w
		})
	}),
	full("order-of-clients", "capabilities: where Fair is stated, clients get the name in the order in which they began to wait", func(e *Env) {
		if e.caps.Fair == driver.FairNone {
			e.notRun("Capabilities.Fair states no order")
		}
		e.inOrderOfClients(4)
	}),
	full("no-starvation",
		"P7 liveness: where Contended or Fair is stated, goroutines that hand a name to each other do not keep it from a waiting client",
		func(e *Env) {
			if !e.caps.Contended && e.caps.Fair == driver.FairNone {
				e.notRun("neither Contended nor Fair is stated")
			}
			c := e.client()
			served(e, soon, 16, 100*time.Microsecond, func(ctx context.Context, name string, _ int) (*lockport.Lock, error) { return c.Acquire(ctx, name) })
		}),
	full("server-gone", ruleOutage+" (unreachable)", func(e *Env) { waitThrough(e, e.sever) }, "Sever", "Direct"),
	full("server-frozen", ruleOutage+" (silent)", func(e *Env) { waitThrough(e, e.freeze) }, "Freeze", "Direct"),
	full("cut", "P7 liveness: a waiter whose connections were closed gets the lock when it is released", func(e *Env) {
		holder, b := e.acquire(e.clientOf(e.observer()), e.name()), e.party()
		next := e.beginAndWait(e.clientOf(b), b, holder.Name())
		for range 3 {
			e.cut()
			next.notYet(50*time.Millisecond, "the name is held")
		}
		e.release(holder)
		e.release(next.granted(e.takeover()+callTime, "the name was released"))
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
		begin(e, "Acquire", func(ctx context.Context) (none struct{}, _ error) {
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
					return none, err
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

// tryOrder starts n waiters in turn, and checks that they get the name in that order. The start of a wait cannot always be
// observed, so each gets a moment, and there are several attempts, which count from 0.
func (e *Env) tryOrder(holder *lockport.Client, n, attempts int, wait func(name string, attempt int) *call[*lockport.Lock]) {
	err := errors.New("not tried")
	for attempt := 0; attempt < attempts && err != nil; attempt++ {
		l := e.acquire(holder, e.name())
		var all []*call[*lockport.Lock]
		for range n {
			all = append(all, wait(l.Name(), attempt))
		}
		e.release(l)
		err = e.inOrder(all)
		for _, w := range all {
			w.cancel()
		}
		for _, w := range all {
			_ = e.giveUp(w)
		}
	}
	e.check(err, "waiters must be served in the order in which they began to wait")
}

// inOrder checks that calls are granted in their order, and releases each lock.
func (e *Env) inOrder(all []*call[*lockport.Lock]) error {
	for i, w := range all {
		next := -1
		e.eventually(e.takeover(), func() bool {
			next = slices.IndexFunc(all[i:], (*call[*lockport.Lock]).isOver)
			return next >= 0
		}, "waiter %d of %d gets the released name", i+1, len(all))
		if next > 0 {
			return overtaken(i+next, i)
		}
		e.release(w.granted(soon, "the name was released"))
	}
	return nil
}

// inOrderOfClients has n clients, each on a machine of its own, begin to wait in turn, and checks that they get the name in that order.
func (e *Env) inOrderOfClients(n int) {
	attempts := 3
	if e.caps.Fair == driver.FairFIFO {
		attempts = 1
	}
	e.tryOrder(e.client(), n, attempts, func(name string, _ int) *call[*lockport.Lock] {
		b := e.party()
		return e.beginAndWait(e.clientOf(b), b, name)
	})
}

func overtaken(by, i int) error {
	return fmt.Errorf("waiter %d was granted the name before waiter %d, which began to wait earlier", by+1, i+1)
}
