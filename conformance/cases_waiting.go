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

// waitingCases test the waiting of claims at the driver: queue, wake-ups and their order.
var waitingCases = group("waiting",
	quick("wait", "P7 liveness: Wait is granted the name as soon as it is released, and its lease is held", func(e *Env) {
		a, b, name := e.two()
		optional[driver.Waiter](b)
		c := e.party()
		for range 5 {
			next := a.releaseTo(b, name, 20*time.Millisecond)
			c.wantHeld(name, "the waiter was granted the name")
			b.release(next)
			c.wantFree(name, "the waiter released the name")
		}
	}),
	full("long-wait", "contract, P3a silence: after a wait for longer than the TTL, the grant has a validity that the server keeps", func(e *Env) {
		a, b, name := e.two()
		optional[driver.Waiter](b)
		c := e.party()
		next := a.releaseTo(b, name, e.ttl*5/4)
		until := next.Grant().Until
		left := time.Until(until)
		e.require(until.IsZero() || left > 0 && left <= e.ttl, "the validity left is %v; it must be positive, and not longer than the TTL %v", left, e.ttl)
		if e.caps.Ends != driver.EndsTTL {
			c.wantHeld(name, "the waiter was granted the name")
			b.release(next)
			return
		}
		c.release(c.afterExpiry(next, until, name))
	}),
	quick("notified", "P7 liveness: Notify wakes a waiter when the holder's claim is released or abandoned, even before the call", func(e *Env) {
		a, b := e.party(), e.party()
		notifier := optional[driver.Notifier](b)
		defer b.keepAlive(b.claim(e.name()))() // the end of an idle session must not end its waits
		for round := range 10 {
			name := e.name()
			held, req := a.request(name), b.queueing(name)
			req.TTL = e.longTTL() // the end of the waiter's place is no hint
			lease := a.claimAs(held)
			b.wantHeldAs(req, "the name is held")
			what, when, end := "released", "after", func() { a.release(lease) }
			if round%4 >= 2 {
				what, end = "abandoned", func() { a.abandon(held) }
			}
			if round%2 == 0 {
				when = "before"
				end()
			}
			var woken atomic.Bool
			stop := notifier.Notify(req, func() { woken.Store(true) })
			if when == "after" {
				e.sleep(20 * time.Millisecond) // a hint before may only mean that the driver listens now
				woken.Store(false)
				end()
			}
			// Try at every hint, as the client does: on a slow connection the driver may only begin to listen now.
			got := poll(e.ctx, soon, func() bool {
				if !woken.Swap(false) {
					return false
				}
				next, err := b.try(req)
				if err == nil {
					b.release(next)
				}
				return err == nil
			})
			stop()
			e.require(got, "the holder's claim was %s %s the call to Notify, but within %v no hint came after which a claim was granted", what, when, soon)
			e.eventually(soon, func() bool { return b.shown(name).Waiters <= 0 }, "nobody waits any more, so Inspect shows no waiter")
		}
	}),
	quick("contended", "capabilities: where Contended is stated, a holder is told that another client waits, by Contended or with its grant",
		func(e *Env) { contended(e, mode{}) }),
	quick("order", "capabilities: where Fair is stated, clients are served in the order in which they began to wait, before any newcomer", func(e *Env) {
		e.applies(e.caps.Fair != driver.FairNone, "Capabilities.Fair states no order")
		e.inOrderOfClients()
		if !e.caps.Queue {
			return
		}
		holder, newcomer, name, lease := e.held()
		stop := holder.keepAlive(lease)
		var queue []*party
		var reqs []driver.Request
		for i := range 3 {
			p := e.party()
			queue, reqs = append(queue, p), append(reqs, p.queueing(name))
			reqs[i].TTL = e.longTTL() // nobody keeps its place alive
			p.wantHeldAs(reqs[i], "the name is held")
			defer p.abandon(reqs[i])
		}
		stop()
		for i, p := range queue {
			start := time.Now()
			// An advisory queue skips a client that is slow to answer.
			inTurn := func(ok bool, seen string, args ...any) {
				if !ok && e.caps.Fair == driver.FairAdvice && time.Since(start) >= 100*time.Millisecond {
					seen, args = seen+" (%w)", append(args, errSlow)
				}
				e.require(ok, seen, args...)
			}
			holder.release(lease)
			inTurn(errOf(newcomer.try(newcomer.request(name))) != nil, "a newcomer was granted the name before waiter %d", i+1)
			for j := len(queue) - 1; j > i; j-- {
				inTurn(errOf(queue[j].try(reqs[j])) != nil, "%w", overtaken(j, i))
			}
			next, err := p.try(reqs[i])
			inTurn(err == nil, "the name was released and waiter %d is first, yet its claim returned: %w", i+1, err)
			holder, lease = p, next
		}
		holder.release(lease)
	}),
)

// contended has a client wait for a holder whose claim has the mode m.
func contended(e *Env, m mode) {
	e.applies(e.caps.Contended, "Capabilities.Contended is not stated")
	a, b, name := e.two()
	var told atomic.Bool
	req := a.in(m).patientRequest(name)
	req.Contended = func() { told.Store(true) }
	lease := a.claimAs(req)
	if e.caps.FixedTTL > 0 { // elsewhere no renewal may be needed to tell it
		defer a.keepAlive(lease)()
	}
	e.require(!lease.Grant().Contended, "the grant says that another client waits, but none does")
	e.require(!told.Load(), "the holder was told that another client waits, but none does")
	e.beginAndWait(e.clientOf(b), b, name)
	e.require(poll(e.ctx, soon, told.Load), "another client waits, but the holder was not told within %v", soon)
}

// releaseTo has p hold name for long while b waits. It returns the lease that b gets when p releases the name.
func (p *party) releaseTo(b *party, name string, long time.Duration) driver.Lease {
	lease := p.claim(name)
	release := p.keep(lease)
	waiting := b.beginWait(name)
	waiting.notYet(long, "the name is held")
	release()
	next := waiting.granted(soon, "the name was released")
	p.e.rises(lease.Grant().Token, next.Grant().Token)
	return next
}

// inOrderOfClients has clients, each on a machine of its own, begin to wait in turn, and checks that they get the name in that order.
// The start of a wait cannot always be observed, so there are several attempts if the order is advice.
func (e *Env) inOrderOfClients() {
	attempts := 3
	if e.caps.Fair == driver.FairFIFO {
		attempts = 1
	}
	holder, err := e.patient(), errors.New("not tried")
	for ; err != nil && attempts > 0; attempts-- {
		l := e.acquire(holder, e.name())
		var all []*call[*lockport.Lock]
		for range 4 {
			b := e.party()
			all = append(all, e.beginAndWait(e.clientOf(b, lockport.TTL(e.longTTL())), b, l.Name()))
		}
		e.release(l)
		err = e.inOrder(all)
		e.giveUp(all)
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

func overtaken(by, i int) error {
	return fmt.Errorf("waiter %d was granted the name before waiter %d, which began to wait earlier", by+1, i+1)
}

const ruleOutage = "P7 liveness: a waiter survives an outage of the server and gets the lock afterwards"

// livenessCases test P7: every waiter gets its turn.
var livenessCases = group("liveness",
	full("hand-offs", "P7 liveness: no wake-up is lost: two clients that take turns each get the name when the other releases it", func(e *Env) {
		const rounds, slow = 40, 500 * time.Millisecond
		clients, name := []*lockport.Client{e.client(), e.client()}, e.name()
		holder, slowOnes := e.acquire(clients[0], name), 0
		for i := range rounds {
			next := e.acquiring(clients[(i+1)%2], name)
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
			waiting = append(waiting, e.acquiring(client, l.Name()))
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

// waitThrough has a client wait while its server is out of reach for longer than the TTL, and once more afterwards: its wake-ups work again.
func waitThrough(e *Env, fault func()) {
	other, b := e.clientOf(e.observer(), lockport.TTL(e.atLeast(time.Minute))), e.party() // no waiter is served by other's expiry
	holder, c := e.acquire(other, e.name()), e.clientOf(b)
	late := e.acquiring(c, holder.Name())
	early := e.beginAndWait(c, b, holder.Name())
	fault()
	early.notYet(e.ttl*5/4, "the name is held, and the server is out of reach")
	late.cancel() // giving up needs no server
	e.is(errOf(late.ended(endTime, "its context has ended")), "a canceled Acquire must return context.Canceled; it returned", context.Canceled)
	e.release(holder)
	e.restore()
	e.release(early.granted(e.takeover()+2*callTime, "the server is back and the name was released"))
	holder = e.acquire(other, holder.Name())
	late = e.acquiring(c, holder.Name())
	late.notYet(100*time.Millisecond, "the name is held")
	e.release(holder)
	e.release(late.granted(e.takeover(), "the server was back when the wait began, and the name was released"))
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
				case ctx.Err() != nil:
					return err
				case matches(err, lockport.ErrHeld, lockport.ErrUnavailable): // TryAcquire; a busy machine may take longer than the TTL to connect
					<-time.After(time.Millisecond)
				default:
					e.fail(err)
					return err
				}
			}
		})
	}
	for range 4 {
		before := holds.Load()
		e.eventually(8*limit, func() bool { return holds.Load() >= before+16 }, "the other goroutines take turns")
		before = holds.Load()
		begun := time.Now()
		mine := e.acquiring(c, name, own...)
		e.eventually(8*limit, func() bool {
			starved := holds.Load() >= before+starving && time.Since(begun) > limit
			return mine.isOver() || starved
		}, "Acquire returns, while others hold the name for moments only")
		e.require(mine.isOver(), "others hold the name for moments only, but they acquired it %d times in %v while Acquire waited",
			holds.Load()-before, time.Since(begun))
		e.release(mine.granted(soon, "others hold the name for moments only"))
	}
}
