package lockport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// Bounds of the pauses in which a waiter rides out an outage.
const (
	minPause = 50 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// maxAttempt bounds one request to the server, as does the TTL that it asks for.
const maxAttempt = 5 * time.Second

// safetyNet is after how long a waiter looks again although it should have been told, if the driver names no time.
const safetyNet = time.Second

// defaultPoll is how often a waiter looks where nobody tells it, if the driver names no time.
const defaultPoll = 250 * time.Millisecond

// outcome is what a driver made of a claim.
type outcome struct {
	lease     driver.Lease
	grant     driver.Grant // of the lease
	err       error
	suspended time.Duration // clock.Suspended before the request
	gaveUp    bool          // who made the request has left the queue, which cut it short
}

// newOutcome makes the outcome of what a driver returned. It asks the lease outside the mutex, which a driver's callbacks take.
func (c *Client) newOutcome(lease driver.Lease, err error, suspended time.Duration) outcome {
	o := outcome{lease: lease, err: err, suspended: suspended}
	switch {
	case err == nil && lease == nil:
		o.err = errors.New("the driver returned neither a lease nor an error")
	case err == nil:
		o.grant = lease.Grant()
		if _, ok := lease.(driver.Renewer); !ok && c.batch == nil && !o.grant.Until.IsZero() {
			o.err = errors.New("the driver granted a lease that ends and that nothing can renew: it must be a driver.Renewer, or its backend a driver.BatchRenewer")
		}
	}
	return o
}

// run goes on with a claim after its first attempt, whose outcome is o, until it is granted or nobody wants it any more.
func (cl *claim) run(o outcome) {
	again, unknown := cl.settle(o)
	cl.proceed(o, again, unknown)
}

// runHere makes the first attempt on the goroutine of w, whose context is ctx, and leaves it to another to go on. Afterwards w is answered, or
// awaited.
func (cl *claim) runHere(ctx context.Context, w *waiter) {
	c := cl.client
	o := outcome{err: driver.ErrUnknown, gaveUp: true} // if the driver panics
	defer c.background.Done()
	defer func() {
		c.mu.Lock()
		defer c.unlock()
		if o.gaveUp = o.gaveUp && !w.done; o.gaveUp {
			cl.queue.drop(w)
		}
		if again, unknown := cl.conclude(o); again || unknown {
			cl.proceedLater(o, again, unknown)
		} else {
			cl.made()
		}
		w.awaited = !w.done
	}()
	o = cl.attempt(ctx, false)
	o.gaveUp = o.err != nil && endedBy(ctx)
}

// proceedLater is proceed on another goroutine. The mutex is held.
func (cl *claim) proceedLater(o outcome, again, unknown bool) {
	cl.client.inBackground(func() { cl.proceed(o, again, unknown) })
}

// endedBy reports that ctx has ended, or is about to: a socket with its deadline may be a moment quicker than its timer. Who made the request waits for
// that, and nobody else.
func endedBy(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && ctx.Done() != nil && !clock.Now().Before(d)
}

// proceed goes on after settle has said again and unknown of o.
func (cl *claim) proceed(o outcome, again, unknown bool) {
	c, stopHints := cl.client, func() {}
	defer func() {
		stopHints()
		c.mu.Lock()
		cl.made()
		c.unlock()
	}()
	if again || unknown {
		cl.prepareToWait()
	}
	hinted, waited := false, false
	for pause := minPause; again && !unknown; again, unknown = cl.settle(o) {
		switch {
		case !errors.Is(o.err, ErrHeld):
			waited = false
			cl.sleep(jitter(pause), nil)
			pause = min(2*pause, maxPause)
		case c.waiter != nil && !waited:
			pause, waited = minPause, true // in the server's queue, without a pause
		default:
			pause, waited = minPause, false
			if c.notifier != nil && !hinted {
				hinted = true
				stopHints = c.notifier.Notify(cl.req, cl.signal)
			}
			cl.sleep(c.lookAgain(o.err), cl.seldom.wake)
		}
		o = cl.attempt(c.ctx, waited)
	}
	if unknown {
		stopHints()
		stopHints = func() {}
		cl.renounce()
	}
}

// prepareToWait makes what cuts pauses short.
func (cl *claim) prepareToWait() {
	cl.client.mu.Lock()
	defer cl.client.mu.Unlock()
	s := cl.rarely()
	s.wake, s.gone = make(chan struct{}, 1), make(chan struct{})
	if cl.detached() {
		close(s.gone)
	}
}

// made says that nothing more is done to make the claim. The mutex is held.
func (cl *claim) made() {
	cl.client.making--
	cl.client.checkIdle()
}

// attempt makes one request for the claim: TryAcquire, or Wait, which waits in the server's queue.
func (cl *claim) attempt(ctx context.Context, wait bool) outcome {
	c := cl.client
	if cl.req.Owner == "" {
		cl.identify()
	}
	now, suspended := clock.Present()
	var deadline time.Time // none
	if !wait {
		deadline = now.Add(min(cl.req.TTL, maxAttempt))
	}
	call := c.calls.Under(ctx, deadline)
	defer call.Cancel()
	c.mu.Lock()
	cl.call = call
	detached := cl.detached()
	if !detached {
		cl.req.Queue = c.caps.Queue && !cl.queue.head.try
		cl.queued = cl.queued || cl.req.Queue
	}
	c.mu.Unlock()
	if detached {
		return outcome{err: driver.ErrUnavailable} // nothing was asked for
	}
	var lease driver.Lease
	var err error
	if wait {
		lease, err = c.waiter.Wait(call, cl.req)
	} else {
		lease, err = c.backend.TryAcquire(call, cl.req)
	}
	return c.newOutcome(lease, err, suspended)
}

// settle draws the conclusions from an attempt.
func (cl *claim) settle(o outcome) (again, unknown bool) {
	cl.client.mu.Lock()
	defer cl.client.unlock()
	return cl.conclude(o)
}

// conclude is settle where the mutex is held. again: the attempt is to be made again, with the same owner. unknown: the claim may be held, and
// must be renounced before another is made for those who wait.
func (cl *claim) conclude(o outcome) (again, unknown bool) {
	c, q := cl.client, cl.queue
	cl.call = nil
	now := c.now()
	class := classOf(o.err)
	if cl.detached() {
		if class != ErrHeld && class != ErrUnavailable && class != ErrRefused || cl.queued {
			c.undoLater(cl.req, o.lease)
		}
		return false, false
	}
	if o.err == nil {
		cl.lease, cl.token, cl.contended = o.lease, o.grant.Token, cl.contended || o.grant.Contended
		deadline := c.deadline(o.grant.Until, o.suspended, cl.req.TTL)
		switch lostEarly := cl.lostEarly(); {
		case lostEarly == nil && now < deadline && q.head.ttl == cl.req.TTL:
			cl.granted(deadline, now)
			return false, false
		case lostEarly == nil && now < deadline: // it was made for somebody with another TTL, who has gone
			c.undoLater(cl.req, cl.lease)
			c.replace(cl)
			return false, false
		case lostEarly != nil:
			o.err = fmt.Errorf("%w: the lock was lost as soon as it was granted: %w", driver.ErrUnknown, lostEarly)
		default:
			o.err = fmt.Errorf("%w: the lock was granted too late to be of use", driver.ErrUnknown)
		}
		class = driver.ErrUnknown
	}
	if class == ErrHeld {
		o.err = newHeldError(driver.Status{Name: q.name}, o.err)
	}
	if o.gaveUp && class != ErrHeld && class != ErrRefused { // it failed because who made it left, which says nothing to the others
		return class != driver.ErrUnknown, class == driver.ErrUnknown
	}
	q.blocked = o.err
	if errors.Is(o.err, context.DeadlineExceeded) || errors.Is(o.err, context.Canceled) { // ours, not that of a caller
		q.blocked = fmt.Errorf("%w: %v", ErrUnavailable, o.err)
	}
	switch class {
	case ErrHeld:
		if !cl.foundHeld { // later there is nobody who was not told to wait
			cl.foundHeld = true
			q.answerAll(o.err, func(w *waiter) bool { w.waited = true; return w.try })
		}
	case ErrRefused:
		q.answerAll(o.err, func(*waiter) bool { return true })
	default:
		if !errors.Is(q.blocked, ErrUnavailable) {
			q.blocked = fmt.Errorf("%w: %w", ErrUnavailable, o.err)
		}
		err := q.blocked
		q.answerAll(err, func(w *waiter) bool { return !w.waited })
	}
	if q.head != nil {
		if class == ErrHeld && q.head.ttl != cl.req.TTL { // the server would go on queueing for the wrong TTL
			if cl.queued {
				c.undoLater(cl.req, nil)
			}
			c.replace(cl)
			return false, false
		}
		return class != driver.ErrUnknown, class == driver.ErrUnknown
	}
	if class == driver.ErrUnknown || cl.queued {
		c.undoLater(cl.req, cl.lease)
	}
	cl.leave()
	return false, false
}

// renounce undoes a claim whose outcome is unknown, for as long as somebody waits, and then lets the next one be made.
func (cl *claim) renounce() {
	c := cl.client
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		ctx, cancel := context.WithTimeout(c.ctx, maxAttempt)
		err := abandon(ctx, c.backend, cl.req, cl.lease)
		cancel()
		c.mu.Lock()
		switch {
		case cl.detached():
			if err != nil {
				c.undoLater(cl.req, cl.lease)
			}
			c.unlock()
			return
		case err == nil:
			c.replace(cl)
			c.unlock()
			return
		}
		// Those who came meanwhile have not waited for anybody: to them it is an error at once.
		cl.queue.answerAll(fmt.Errorf("%w: %v", ErrUnavailable, err), func(w *waiter) bool { return !w.waited })
		if cl.queue.head == nil {
			c.undoLater(cl.req, cl.lease)
			cl.leave()
			c.unlock()
			return
		}
		c.unlock()
		cl.sleep(jitter(pause), nil)
	}
}

// lookAgain is when a waiter that found the name held looks again if nobody tells it to.
func (c *Client) lookAgain(err error) time.Duration {
	d := safetyNet
	if c.caps.Wake.Polls() {
		d = defaultPoll
	}
	var h *driver.HeldError
	if !errors.As(err, &h) {
		return jitter(d)
	}
	if h.Poll > 0 {
		d = h.Poll
	}
	d = jitter(d)
	if h.ExpiresIn > 0 {
		d = min(d, min(h.ExpiresIn, time.Hour)+time.Millisecond) // servers count in milliseconds
	}
	return d
}

// jitter keeps the waiters of many processes from asking in step.
func jitter(d time.Duration) time.Duration {
	d = min(d, time.Hour)
	return d - d/10 + rand.N(d/5+1)
}
