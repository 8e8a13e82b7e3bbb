package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// waitingCases are about how a driver lets a claim wait: its queue, its wake-ups, and their order.
var waitingCases = group("waiting",
	quick("wait", "P7 liveness: Wait is granted the name as soon as it is released, and what it returns is held", func(e *Env) {
		a, b, name := e.two()
		b.waiter()
		c := e.party()
		for range 5 {
			next := a.releasesTo(b, name, 20*time.Millisecond)
			c.finds(name, "the name was granted to who waited")
			b.release(next)
			c.free(name, "who waited has released the name")
		}
	}),
	full("long-wait", "contract, P3a silence: a claim that was won by waiting for longer than the TTL has a validity that the server keeps", func(e *Env) {
		a, b, name := e.two()
		b.waiter()
		c := e.party()
		next := a.releasesTo(b, name, e.ttl*5/4)
		until := next.Grant().Until
		left := time.Until(until)
		e.require(until.IsZero() || left <= e.ttl, "the validity left is %v, longer than the TTL %v", left, e.ttl)
		if e.caps.Ends != driver.EndsTTL {
			c.finds(name, "the name was granted to who waited")
			b.release(next)
			return
		}
		c.release(c.afterExpiry(next, until, name))
	}),
	full("wait-behind-the-dead", "P5 crash: Wait is granted the name when its holder has died, in the stated time", func(e *Env) {
		a, b, name := e.two()
		b.waiter()
		until := a.claim(name).Grant().Until
		waiting := b.waits(name)
		waiting.notYet(10*time.Millisecond, "the name is held")
		e.check(a.Close(), "Close")
		next := waiting.granted(e.takeover(), "the holder's backend was closed without a release, which is as if its process had died")
		e.require(e.caps.Ends != driver.EndsTTL || !time.Now().Before(until),
			"P3a silence: the name was granted again %v before the first holder's validity ended", time.Until(until))
		b.release(next)
	}),
	quick("notified", "P7 liveness: who asked to be notified is told when the name was released, also if that was before it asked", func(e *Env) {
		a, b := e.party(), e.party()
		notifier := optional[driver.Notifier](b)
		for round := range 10 {
			name := e.name()
			lease, req := a.claim(name), b.queueing(name)
			e.is(errOf(b.try(req)), "a claim on a name that is held was not ErrHeld but", driver.ErrHeld)
			when := "after"
			if round%2 == 0 {
				when = "before"
				a.release(lease)
			}
			woken, wake := signal()
			stop := notifier.Notify(req, wake)
			if when == "after" {
				a.release(lease)
			}
			// The first hint may be the one that says that it listens now: so it asks again, as the client does.
			got := poll(e.ctx, soon, func() bool {
				select {
				case <-woken:
				default:
					return false
				}
				next, err := b.try(req)
				if err == nil {
					b.release(next)
				}
				return err == nil
			})
			stop()
			e.require(got, "the name was released %s it asked, and for %v no hint came after which the name was to be had", when, soon)
		}
	}),
	quick("contended", "capabilities: where Contended is stated, a holder is told that another client waits, or was told so with the grant", func(e *Env) { contended(e, (*party).request) }),
	quick("order", "capabilities: where Fair is stated, clients are served in the order in which they began to wait, and no newcomer overtakes them", serverOrder),
	full("dead-waiter", "P7 liveness: a waiting client that is gone keeps the name from the others no longer than the TTL", func(e *Env) {
		a, b, name, lease := e.held()
		req := b.queueing(name)
		_, _ = b.try(req)
		if w, ok := driver.As[driver.Waiter](b.Backend); ok {
			waiting := begin(e, "Wait", func(ctx context.Context) (driver.Lease, error) { return w.Wait(ctx, req) })
			<-time.After(20 * time.Millisecond)
			defer func() { waiting.cancel(); <-waiting.over }()
		}
		e.check(b.Close(), "Close")
		a.release(lease)
		e.party().frees(name, e.takeover(), "the holder has released the name, and who waited is gone")
	}),
)

// contended has a client wait for a holder of this mode.
func contended(e *Env, as mode) {
	if !e.caps.Contended {
		e.notRun("Capabilities.Contended is not stated")
	}
	a, b, name := e.two()
	told, tell := signal()
	req := as(a, name)
	req.Contended = tell
	lease := a.claimOf(req)
	defer a.keepAlive(lease)()
	e.require(!lease.Grant().Contended, "the grant says that another client waits, where none does")
	e.require(len(told) == 0, "the holder was told that another client waits, where none does")
	defer b.startsToWait(name)()
	e.within(told, soon, "another client waits, and the holder was not told for %v", soon)
}

// signal is a channel that a callback sends to, however often it is called.
func signal() (told chan struct{}, tell func()) {
	told = make(chan struct{}, 1)
	return told, func() {
		select {
		case told <- struct{}{}:
		default:
		}
	}
}

// releasesTo has p hold name for long while b waits, and returns what b gets when p releases it.
func (p *party) releasesTo(b *party, name string, long time.Duration) driver.Lease {
	lease := p.claim(name)
	stop := p.keepAlive(lease)
	waiting := b.waits(name)
	waiting.notYet(long, "the name is held")
	stop()
	p.release(lease)
	next := waiting.granted(soon, "the name was released")
	p.e.rises(lease.Grant().Token, next.Grant().Token)
	return next
}

// startsToWait has p wait for name, which is held, by whatever way the backend has, until the returned function is called.
func (p *party) startsToWait(name string) (stop func()) {
	if _, ok := driver.As[driver.Waiter](p.Backend); ok {
		p.waits(name).notYet(time.Millisecond, "the name is held")
		return func() {}
	}
	req, end := p.queueing(name), func() {}
	p.e.is(errOf(p.try(req)), "a claim on a name that is held was not ErrHeld but", driver.ErrHeld)
	if n, ok := driver.As[driver.Notifier](p.Backend); ok {
		end = n.Notify(req, func() {})
	}
	return func() { end(); p.abandon(req) }
}

// serverOrder has three clients queue, and serves them. A queue that is advice skips a client that is slow to answer, so a slow attempt
// is repeated.
func serverOrder(e *Env) {
	if e.caps.Fair == driver.FairNone {
		e.notRun("Capabilities.Fair states no order")
	}
	if !e.caps.Queue {
		_, waits := driver.As[driver.Waiter](e.party().Backend)
		e.require(waits, "Capabilities.Fair states %v, but there is neither a queue (Capabilities.Queue) nor a driver.Waiter", e.caps.Fair)
		waitersOrder(e)
		return
	}
	var err error
	for range 5 {
		var took time.Duration
		if took, err = queueOrder(e); err == nil || took < 100*time.Millisecond {
			break
		}
	}
	e.check(err, "in the order of the queue")
}

// queueOrder tries the order of claims with Request.Queue. It returns how long the longest pause of a waiter was.
func queueOrder(e *Env) (slowest time.Duration, _ error) {
	holder, newcomer, name, lease := e.held()
	stop := holder.keepAlive(lease)
	var queue []*party
	var reqs []driver.Request
	for i := range 3 {
		p := e.party()
		queue, reqs = append(queue, p), append(reqs, p.queueing(name))
		e.is(errOf(p.try(reqs[i])), "a claim on a name that is held was not ErrHeld but", driver.ErrHeld)
	}
	stop()
	defer func() {
		for i, p := range queue {
			p.abandon(reqs[i])
		}
	}()
	for i, p := range queue {
		start := time.Now()
		holder.release(lease)
		if got, err := newcomer.try(newcomer.request(name)); err == nil {
			newcomer.release(got)
			return time.Since(start), fmt.Errorf("a newcomer was granted the name before client %d, which waited", i+1)
		}
		for j := len(queue) - 1; j > i; j-- {
			if got, err := queue[j].try(reqs[j]); err == nil {
				queue[j].release(got)
				return time.Since(start), overtaken(j, i)
			}
		}
		next, err := p.try(reqs[i])
		slowest = max(slowest, time.Since(start))
		if err != nil {
			return slowest, fmt.Errorf("the name was released, and client %d is the first who waits, yet its claim was: %w", i+1, err)
		}
		holder, lease = p, next
	}
	holder.release(lease)
	return slowest, nil
}

// waitersOrder tries the order of Wait.
func waitersOrder(e *Env) {
	a, _, name, lease := e.held()
	stop := a.keepAlive(lease)
	var queue []*party
	var waits []*call[driver.Lease]
	for i := range 3 {
		p := e.party()
		queue, waits = append(queue, p), append(waits, p.waits(name))
		waits[i].notYet(100*time.Millisecond, "the name is held") // it is in the server's queue by then
	}
	stop()
	a.release(lease)
	e.check(inOrder(waits, func(i int, next driver.Lease) { queue[i].release(next) }), "Wait")
}
