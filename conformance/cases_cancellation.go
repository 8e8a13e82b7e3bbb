package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleCancellation = "P6 cancellation: a claim that is given up leaves nothing behind: once Abandon has returned nil the name is free"

// cancellationCases are about P6, at the driver: its calls return when their contexts end, and what they leave is undone.
var cancellationCases = group("cancellation",
	quick("before",
		"P6 cancellation: TryAcquire with a context that has ended returns at once, with the context's error in the chain, and takes nothing", func(e *Env) {
			p, other, name := e.two()
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			req, start := p.request(name), time.Now()
			lease, err := p.TryAcquire(ctx, req)
			took := time.Since(start)
			e.require(lease == nil && errors.Is(err, context.Canceled), "TryAcquire returned a lease: %t, and: %w", lease != nil, err)
			e.require(took <= endTime, "TryAcquire took %v", took)
			if certain(err) {
				p.free(name, "TryAcquire said that it certainly had no effect")
			}
			p.abandon(req)
			other.free(name, "the claim was abandoned")
		}),
	quick("at-any-moment", ruleCancellation+", and what is said to have had no effect had none (context cancelled at random moments of TryAcquire)",
		func(e *Env) { e.party().ask().cancelledAtAnyMoment(e.party()) }),
	quick("abandon-meanwhile", ruleCancellation+", also while the call whose context has ended is still on its way", func(e *Env) {
		e.party().abandonedMeanwhile(e.party(), (*party).request, (*party).request)
	}),
	quick("queued", "P6 cancellation: a queued claim that is abandoned gives up its place: the name goes to the next", func(e *Env) {
		if !e.caps.Queue {
			e.notRun("the server keeps no queue")
		}
		a, b, name, lease := e.held()
		queued := b.queueing(name)
		e.is(errOf(b.try(queued)), "a queued claim on a name that is held was not ErrHeld but", driver.ErrHeld)
		b.abandon(queued)
		b.abandon(queued)
		a.release(lease)
		e.party().free(name, "the only one who waited has abandoned its claim")
		e.leftovers("all claims were released or abandoned")
	}),
	quick("waiting", "P6 cancellation: Wait returns when its context ends, and leaves nothing behind once it is abandoned", func(e *Env) {
		a, b, name := e.two()
		waiter := b.waiter()
		lease := a.claim(name)
		stop := a.keepAlive(lease)
		req := b.request(name)
		w := begin(e, "Wait", func(ctx context.Context) (driver.Lease, error) { return waiter.Wait(ctx, req) })
		w.notYet(e.ttl/4, "the name is held")
		w.cancel()
		e.is(errOf(w.ended(endTime, "its context has ended")), "Wait returned, when its context was cancelled", context.Canceled)
		b.abandon(req)
		stop()
		a.release(lease)
		e.party().free(name, "the only one who waited has abandoned its claim")
		e.leftovers("all claims were released or abandoned")
	}),
	full("waiting-at-the-grant", ruleCancellation+" (a waiting claim whose context ends at the moment of its grant)", func(e *Env) {
		a, b, name := e.two()
		other, waiter := e.party(), b.waiter()
		for round := range 30 {
			lease, req := a.claim(name), b.request(name)
			w := begin(e, "Wait", func(ctx context.Context) (driver.Lease, error) { return e.sound(waiter.Wait(ctx, req)) })
			<-time.After(3*time.Millisecond + rand.N(time.Millisecond)) // it waits by then
			aroundTheRelease(round, w.cancel, func() { a.release(lease) })
			won, err := w.ended(endTime+soon, "its context has ended")
			b.settle(req, won, err)
			other.free(name, "the waiting claim was released or abandoned")
		}
	}),
	full("silent-server",
		"P6 cancellation: TryAcquire returns when its context ends although the server is silent, as an unknown or unavailable one; "+
			"what arrives late is undone by Abandon", func(e *Env) {
			a, other, name := e.party().connected(), e.observer(), e.name()
			e.freeze()
			req := a.request(name)
			err := e.endsInTime("TryAcquire", func(ctx context.Context) error { return errOf(a.TryAcquire(ctx, req)) })
			e.is(class(err), "TryAcquire on a silent server was neither unknown nor unavailable but", driver.ErrUnknown, driver.ErrUnavailable)
			// It may be nil where the driver knows that nothing was sent.
			_ = e.endsInTime("Abandon", func(ctx context.Context) error { return a.Abandon(ctx, req) })
			e.restore()
			a.abandon(req)
			for range 5 { // what was on its way may come late
				other.free(name, "Abandon has returned nil")
				e.sleep(20 * time.Millisecond)
			}
			e.leftovers("the claim was abandoned")
		}, "Freeze", "Direct"),
	full("after-each-request", ruleCancellation+" (context cancelled after the first, the second, … request of TryAcquire)", func(e *Env) {
		a := e.party().connected().ask()
		cancelledAfterEachRequest(e, e.party().connected(), func() *asker { return a })
	}, "Delay", "Requests"),
)

// aroundTheRelease cancels a wait just before the name is released, just after, or at the same time, in turn.
func aroundTheRelease(round int, cancel, release func()) {
	switch round % 3 {
	case 0:
		cancel()
		release()
	case 1:
		release()
		cancel()
	case 2:
		cancelled := make(chan struct{})
		go func() {
			defer close(cancelled)
			<-time.After(rand.N(500 * time.Microsecond))
			cancel()
		}()
		<-time.After(rand.N(500 * time.Microsecond))
		release()
		<-cancelled
	}
}
