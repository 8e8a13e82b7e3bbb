package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// waitingCases are about how a driver lets a claim wait: its queue, its wake-ups, and their order.
var waitingCases = group("waiting",
	quick("wait", "P7 liveness: Wait is granted the name as soon as it is released, and what it returns is held", func(e *Env) {
		a, b, c := e.party(), e.party(), e.party()
		b.waiter()
		name := e.name()
		for range 5 {
			lease := a.claim(name)
			stop := a.keepAlive(lease)
			waiting := b.waits(name)
			waiting.notYet(20 * time.Millisecond)
			stop()
			a.release(lease)
			next := waiting.granted(soon, "the name was released")
			if before, now := lease.Grant().Token, next.Grant().Token; before != 0 && now <= before {
				e.failf("P2 fencing: the grant by waiting had token %d, the one before it %d", now, before)
			}
			c.finds(name, "the name was granted to who waited")
			b.release(next)
			c.free(name, "who waited has released the name")
		}
	}),
	full("long-wait", "contract, P3a silence: a claim that was won by waiting for longer than the TTL has a validity that the server keeps", func(e *Env) {
		a, b, c := e.party(), e.party(), e.party()
		b.waiter()
		name := e.name()
		lease := a.claim(name)
		stop := a.keepAlive(lease)
		waiting := b.waits(name)
		waiting.notYet(e.ttl * 5 / 4)
		stop()
		a.release(lease)
		next := waiting.granted(soon, "the name was released")
		if until := next.Grant().Until; !until.IsZero() && time.Until(until) > e.ttl {
			e.failf("the validity left is %v, longer than the TTL %v", time.Until(until), e.ttl)
		}
		if e.caps.Ends != driver.EndsTTL {
			c.finds(name, "the name was granted to who waited")
			b.release(next)
			return
		}
		c.release(afterExpiry(e, next, c, name))
	}),
	full("wait-behind-the-dead", "P5 crash: Wait is granted the name when its holder has died, in the stated time", func(e *Env) {
		a, b := e.party(), e.party()
		b.waiter()
		name := e.name()
		lease := a.claim(name)
		waiting := b.waits(name)
		waiting.notYet(10 * time.Millisecond)
		e.check(a.Close(), "Close")
		next := waiting.granted(e.takeover(), "the holder's backend was closed without a release, which is as if its process had died")
		if until := lease.Grant().Until; e.caps.Ends == driver.EndsTTL && time.Now().Before(until) {
			e.failf("P3a silence: the name was granted again %v before the first holder's validity ended", time.Until(until))
		}
		b.release(next)
	}),
	quick("notified", "P7 liveness: who asked to be notified is told when the name was released, also if that was before it asked", func(e *Env) {
		a, b := e.party(), e.party()
		notifier := optional[driver.Notifier](b)
		for round := range 10 {
			name := e.name()
			lease := a.claim(name)
			req := b.request(name)
			req.Queue = e.caps.Queue
			e.is(errOf(b.try(req)), driver.ErrHeld, "a claim on a name that is held was not ErrHeld but")
			early := round%2 == 0
			if early {
				a.release(lease)
			}
			woken := make(chan struct{}, 1)
			stop := notifier.Notify(req, func() {
				select {
				case woken <- struct{}{}:
				default:
				}
			})
			if !early {
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
			if !got {
				e.failf("the name was released %s it asked, and for %v no hint came after which the name was to be had",
					map[bool]string{true: "before", false: "after"}[early], soon)
			}
		}
	}),
	quick("contended", "capabilities: where Contended is stated, a holder is told that another client waits, or was told so with the grant", func(e *Env) {
		if !e.caps.Contended {
			e.notRun("Capabilities.Contended is not stated")
		}
		a, b := e.party(), e.party()
		name := e.name()
		told := make(chan struct{}, 1)
		req := a.request(name)
		req.Contended = func() {
			select {
			case told <- struct{}{}:
			default:
			}
		}
		lease, _ := a.claimOf(req)
		defer a.keepAlive(lease)()
		if lease.Grant().Contended {
			e.failf("the grant says that another client waits, where none does")
		}
		select {
		case <-told:
			e.failf("the holder was told that another client waits, where none does")
		default:
		}
		defer e.startsToWait(b, name)()
		e.within(told, soon, "another client waits, and the holder was not told for %v", soon)
	}),
	quick("order", "capabilities: where Fair is stated, clients are served in the order in which they began to wait, and no newcomer overtakes them", serverOrder),
	full("dead-waiter", "P7 liveness: a waiting client that is gone keeps the name from the others no longer than the TTL", func(e *Env) {
		a, b, c := e.party(), e.party(), e.party()
		name := e.name()
		lease := a.claim(name)
		req := b.request(name)
		req.Queue = e.caps.Queue
		_, _ = b.try(req)
		if w, ok := driver.As[driver.Waiter](b.Backend); ok {
			ctx, cancel := context.WithCancel(e.ctx)
			over := make(chan struct{})
			go func() { defer close(over); _, _ = w.Wait(ctx, req) }()
			<-time.After(20 * time.Millisecond)
			e.check(b.Close(), "Close")
			cancel()
			<-over
		} else {
			e.check(b.Close(), "Close")
		}
		a.release(lease)
		c.release(c.takes(name, e.takeover(), "the holder has released the name, and who waited is gone"))
	}),
)

// waits begins to Wait for name.
func (p *party) waits(name string) *waiting {
	w := &waiting{p: p, over: make(chan struct{})}
	ctx, cancel := context.WithCancel(p.e.ctx)
	p.e.after(func() { cancel(); <-w.over })
	waiter := p.waiter()
	req := p.request(name)
	req.Queue = p.e.caps.Queue
	go func() {
		defer close(w.over)
		for {
			w.lease, w.err = waiter.Wait(ctx, req)
			if !errors.Is(w.err, driver.ErrHeld) {
				return
			}
			select { // it cannot wait just now: as the client does
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}

// waiting is a Wait under way.
type waiting struct {
	p     *party
	over  chan struct{}
	lease driver.Lease
	err   error
}

// notYet checks that it still waits after d.
func (w *waiting) notYet(d time.Duration) {
	select {
	case <-w.over:
		if w.err != nil {
			w.p.e.failf("Wait on a name that is held returned: %w", w.err)
		}
		w.p.e.failf("the name is held, yet Wait was granted it (token %d)", w.lease.Grant().Token)
	case <-time.After(d):
	}
}

// granted waits for the grant.
func (w *waiting) granted(limit time.Duration, why string) driver.Lease {
	select {
	case <-w.over:
	case <-time.After(limit):
		w.p.e.failf("%s, but Wait was not granted it within %v", why, limit)
	}
	lease, err := w.p.sound(w.lease, w.err)
	if err != nil {
		w.p.e.failf("%s, but Wait returned: %w", why, err)
	}
	return lease
}

// startsToWait has p wait for name, which is held, by whatever way the backend has, until the returned function is called.
func (e *Env) startsToWait(p *party, name string) (stop func()) {
	if _, ok := driver.As[driver.Waiter](p.Backend); ok {
		w := p.waits(name)
		w.notYet(time.Millisecond)
		return func() {}
	}
	req := p.request(name)
	req.Queue = e.caps.Queue
	e.is(errOf(p.try(req)), driver.ErrHeld, "a claim on a name that is held was not ErrHeld but")
	stop = func() { p.abandon(req) }
	if n, ok := driver.As[driver.Notifier](p.Backend); ok {
		end := n.Notify(req, func() {})
		return func() { end(); p.abandon(req) }
	}
	return stop
}

// serverOrder has three clients queue, and serves them. A queue that is advice skips who does not answer in time, so an attempt on
// which the machine was slow is repeated.
func serverOrder(e *Env) {
	if e.caps.Fair == driver.FairNone {
		e.notRun("Capabilities.Fair states no order")
	}
	if !e.caps.Queue {
		if _, ok := driver.As[driver.Waiter](e.party().Backend); !ok {
			e.failf("Capabilities.Fair states %v, but there is neither a queue (Capabilities.Queue) nor a driver.Waiter", e.caps.Fair)
		}
		waitersOrder(e)
		return
	}
	var err error
	for range 5 {
		var took time.Duration
		if took, err = queueOrder(e); err == nil || took < 100*time.Millisecond {
			e.must(err)
			return
		}
	}
	e.must(err)
}

// queueOrder tries the order of claims with Request.Queue. It returns how long the longest pause of a waiter was.
func queueOrder(e *Env) (slowest time.Duration, _ error) {
	name := e.name()
	a, late := e.party(), e.party()
	lease := a.claim(name)
	stop := a.keepAlive(lease)
	var queue []*party
	var reqs []driver.Request
	for range 3 {
		p := e.party()
		req := p.request(name)
		req.Queue = true
		e.is(errOf(p.try(req)), driver.ErrHeld, "a claim on a name that is held was not ErrHeld but")
		queue, reqs = append(queue, p), append(reqs, req)
	}
	stop()
	giveUp := func() {
		for i, p := range queue {
			p.abandon(reqs[i])
		}
	}
	defer giveUp()
	holder := a
	for i, p := range queue {
		start := time.Now()
		holder.release(lease)
		newcomer := late.request(name)
		if got, err := late.try(newcomer); err == nil {
			late.release(got)
			return time.Since(start), fmt.Errorf("a newcomer was granted the name before client %d, which waited", i+1)
		}
		for j := len(queue) - 1; j > i; j-- {
			if got, err := queue[j].try(reqs[j]); err == nil {
				queue[j].release(got)
				return time.Since(start), fmt.Errorf("client %d was granted the name before client %d, which had begun to wait before it",
					j+1, i+1)
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
	name := e.name()
	a := e.party()
	lease := a.claim(name)
	stop := a.keepAlive(lease)
	var queue []*waiting
	for range 3 {
		w := e.party().waits(name)
		w.notYet(100 * time.Millisecond) // it is in the server's queue by then
		queue = append(queue, w)
	}
	stop()
	a.release(lease)
	for i, w := range queue {
		for j := len(queue) - 1; j > i; j-- {
			select {
			case <-queue[j].over:
				if queue[j].err == nil {
					e.failf("client %d was granted the name before client %d, which had begun to wait before it", j+1, i+1)
				}
			default:
			}
		}
		w.p.release(w.granted(soon, "the name was released"))
	}
}
