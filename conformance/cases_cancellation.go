package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleCancellation = "P6 cancellation: a claim that is given up leaves nothing behind: once Abandon has returned nil the name is free"

// cancellationCases are about P6, at the driver: its calls return when their contexts end, and what they leave is undone.
var cancellationCases = group("cancellation",
	quick("before",
		"P6 cancellation: TryAcquire with a context that has ended returns at once, with the context's error in the chain, and takes nothing", func(e *Env) {
			p := e.party()
			name := e.name()
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			req := p.request(name)
			start := time.Now()
			lease, err := p.TryAcquire(ctx, req)
			if lease != nil || !errors.Is(err, context.Canceled) {
				e.failf("TryAcquire returned a lease: %t, and: %w", lease != nil, orNone(err))
			}
			if took := time.Since(start); took > endTime {
				e.failf("TryAcquire took %v", took)
			}
			if certain(err) {
				p.free(name, "TryAcquire said that it certainly had no effect")
			}
			p.abandon(req)
			e.party().free(name, "the claim was abandoned")
		}),
	quick("at-any-moment", ruleCancellation+", and what is said to have had no effect had none (context cancelled at random moments of TryAcquire)", func(e *Env) {
		a, b := e.party(), e.party()
		start := time.Now()
		a.free(e.name(), "the name is new")
		usual := time.Since(start)
		name := e.name()
		for range 60 {
			ctx, cancel := context.WithCancel(e.ctx)
			req := a.request(name)
			timer := time.AfterFunc(rand.N(2*usual+time.Microsecond), cancel)
			lease, err := a.sound(a.TryAcquire(ctx, req))
			timer.Stop()
			cancel()
			a.settle(req, lease, err)
			b.free(name, fmt.Sprintf("TryAcquire returned %v, and was undone where that says it may have had an effect", err))
		}
	}),
	quick("abandon-meanwhile", ruleCancellation+", also while the call whose context has ended is still on its way", func(e *Env) {
		a, b := e.party(), e.party()
		start := time.Now()
		a.free(e.name(), "the name is new")
		usual := time.Since(start)
		name := e.name()
		for range 40 {
			ctx, cancel := context.WithCancel(e.ctx)
			req := a.request(name)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = a.TryAcquire(ctx, req)
			}()
			<-time.After(rand.N(2*usual + time.Microsecond))
			cancel()
			a.abandon(req)
			b.free(name, "Abandon returned nil")
			e.within(done, endTime, "TryAcquire has not returned %v after its context ended", endTime)
			b.free(name, "Abandon had returned nil")
		}
	}),
	quick("queued", "P6 cancellation: a queued claim that is abandoned gives up its place: the name goes to the next", func(e *Env) {
		if !e.caps.Queue {
			e.notRun("the server keeps no queue")
		}
		a, b, c := e.party(), e.party(), e.party()
		name := e.name()
		lease := a.claim(name)
		queued := b.request(name)
		queued.Queue = true
		e.is(errOf(b.try(queued)), driver.ErrHeld, "a queued claim on a name that is held was not ErrHeld but")
		b.abandon(queued)
		b.abandon(queued)
		a.release(lease)
		c.free(name, "the only one who waited has abandoned its claim")
		e.leftovers(soon, "all claims were released or abandoned")
	}),
	quick("waiting", "P6 cancellation: Wait returns when its context ends, and leaves nothing behind once it is abandoned", func(e *Env) {
		a, b, c := e.party(), e.party(), e.party()
		w := b.waiter()
		name := e.name()
		lease := a.claim(name)
		stop := a.keepAlive(lease)
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		req := b.request(name)
		over := make(chan error, 1)
		go func() { _, err := w.Wait(ctx, req); over <- err }()
		select {
		case err := <-over:
			e.failf("Wait on a name that is held returned before its context ended: %w", orNone(err))
		case <-time.After(e.ttl / 4):
		}
		cancel()
		select {
		case err := <-over:
			e.is(err, context.Canceled, "Wait returned, when its context was cancelled")
		case <-time.After(endTime):
			e.failf("Wait has not returned %v after its context ended", endTime)
		}
		b.abandon(req)
		stop()
		a.release(lease)
		c.free(name, "the only one who waited has abandoned its claim")
		e.leftovers(soon, "all claims were released or abandoned")
	}),
	full("waiting-at-the-grant", ruleCancellation+" (a waiting claim whose context ends at the moment of its grant)", func(e *Env) {
		a, b, c := e.party(), e.party(), e.party()
		w := b.waiter()
		name := e.name()
		for round := range 30 {
			lease := a.claim(name)
			ctx, cancel := context.WithCancel(e.ctx)
			req := b.request(name)
			var won driver.Lease
			over := make(chan error, 1)
			go func() {
				var err error
				won, err = w.Wait(ctx, req)
				over <- err
			}()
			<-time.After(3*time.Millisecond + rand.N(time.Millisecond)) // it waits by then
			timer := time.AfterFunc(rand.N(2*time.Millisecond), func() {
				if round%3 == 2 {
					cancel()
				}
			})
			if round%3 == 0 {
				cancel()
			}
			a.release(lease)
			if round%3 == 1 {
				cancel()
			}
			select {
			case err := <-over:
				b.settle(req, won, err)
			case <-time.After(endTime + soon):
				e.failf("Wait has not returned %v after its context ended", endTime)
			}
			timer.Stop()
			cancel()
			c.free(name, "the waiting claim was released or abandoned")
		}
	}),
	full("silent-server",
		"P6 cancellation: TryAcquire returns when its context ends although the server is silent, as an unknown or unavailable one; "+
			"what arrives late is undone by Abandon", func(e *Env) {
			a, b := e.party(), e.observer()
			a.free(e.name(), "the name is new") // the connection is there
			name := e.name()
			e.freeze()
			req := a.request(name)
			err := e.endsInTime("TryAcquire", func(ctx context.Context) error {
				_, err := a.sound(a.TryAcquire(ctx, req))
				return err
			})
			if c := class(err); c != driver.ErrUnknown && c != driver.ErrUnavailable {
				e.failf("TryAcquire on a silent server was neither unknown nor unavailable but: %w", orNone(err))
			}
			// It may be nil where the driver knows that nothing was sent.
			_ = e.endsInTime("Abandon", func(ctx context.Context) error { return a.Abandon(ctx, req) })
			e.restore()
			a.abandon(req)
			for range 5 { // what was on its way may come late
				b.free(name, "Abandon has returned nil")
				e.sleep(20 * time.Millisecond)
			}
			e.leftovers(soon, "the claim was abandoned")
		}).needing(NeedFreeze, NeedDirect),
	full("after-each-request", ruleCancellation+" (context cancelled after the first, the second, … request of TryAcquire)", func(e *Env) {
		a, b := e.party(), e.party()
		a.free(e.name(), "the name is new")
		b.free(e.name(), "the name is new")
		name := e.name()
		const late = 30 * time.Millisecond
		for n := int64(1); n <= 8; n++ {
			e.delay(late)
			before := e.requests()
			ctx, cancel := context.WithCancel(e.ctx)
			req := a.request(name)
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				for e.requestsNow() < before+n && ctx.Err() == nil {
					<-time.After(time.Millisecond)
				}
				cancel()
			}()
			lease, err := a.sound(a.TryAcquire(ctx, req))
			enough := e.requests() < before+n
			cancel()
			<-stopped
			e.restore()
			a.settle(req, lease, err)
			b.free(name, fmt.Sprintf("TryAcquire, cancelled after request %d, returned %v, and was undone", n, err))
			if enough {
				break // it needs no more requests than that
			}
		}
	}).needing(NeedDelay, NeedRequests),
)

// settle does what the client does with the outcome of a claim that nobody wants any more: what may be held is undone, and
// what certainly has no effect is left alone.
func (p *party) settle(req driver.Request, lease driver.Lease, err error) {
	switch {
	case err == nil:
		err := p.releases(lease)
		if class(err) == driver.ErrUnknown { // its connection was cut just after the grant
			p.abandon(req)
			return
		}
		p.e.check(err, "the release of a claim that is held")
	case errors.Is(err, driver.ErrHeld):
		p.e.failf("nobody has the name, yet a claim was: %w", err)
	case !certain(err):
		p.abandon(req)
	}
}

// certain says that a claim with this error certainly had no effect.
func certain(err error) bool {
	c := class(err)
	return c == driver.ErrUnavailable || c == driver.ErrRefused
}

// waiter is the party's Waiter; a case that needs one is not run without.
func (p *party) waiter() driver.Waiter {
	w := optional[driver.Waiter](p)
	return w
}

// endsInTime calls f with a context that ends soon, and checks that it returns then.
func (e *Env) endsInTime(what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(e.ctx, 200*time.Millisecond)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- f(ctx) }()
	select {
	case err := <-over:
		return err
	case <-time.After(200*time.Millisecond + endTime):
		e.failf("%s has not returned %v after its context ended", what, endTime)
	}
	return nil
}
