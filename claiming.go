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

// Bounds of the pauses in which a waiter rides out an outage, and a claim is undone.
const (
	minPause = 50 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// maxAttempt bounds one request to the server, as does the TTL that it asks for.
const maxAttempt = 5 * time.Second

// After how long a waiter looks again, if the driver names no time: where it should have been told, and where nobody tells it.
const (
	safetyNet   = time.Second
	defaultPoll = 250 * time.Millisecond
)

// outcome is what a driver made of a claim.
type outcome struct {
	lease     driver.Lease
	grant     driver.Grant // of the lease
	err       error
	suspended time.Duration // clock.Suspended before the request
	gaveUp    bool          // the caller on whose goroutine the request was made has left, which cut it short
}

// newOutcome makes the outcome of what a driver returned. It asks the lease outside the mutex, which a driver's callbacks take.
func (c *Client) newOutcome(lease driver.Lease, err error, suspended time.Duration) outcome {
	o := outcome{lease: lease, err: err, suspended: suspended}
	switch {
	case err != nil:
	case lease == nil:
		o.err = errors.New("the driver returned neither a lease nor an error")
	default:
		o.grant = lease.Grant()
		if _, ok := lease.(driver.Renewer); !ok && c.batch == nil && !o.grant.Until.IsZero() {
			o.err = errors.New("the driver granted a lease that nothing can renew: make the lease a driver.Renewer, or its backend a driver.BatchRenewer")
		}
	}
	return o
}

// runHere makes the first attempt on the goroutine of w, and leaves it to another to go on. Afterwards w is answered, or waits for ready.
func (cl *claim) runHere(w *waiter) {
	c := cl.client
	o := outcome{err: driver.ErrUnknown, gaveUp: true} // if the driver panics
	defer c.background.Done()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if o.gaveUp = o.gaveUp && !w.done; o.gaveUp {
			cl.queue.drop(w)
		}
		if cl.conclude(o) {
			ctx := cl.ownContext(w.ctx)
			c.inBackground(func() { cl.goOn(ctx, o) })
		}
		if !w.done {
			w.ready = make(chan struct{})
		}
	}()
	o = cl.attempt(w.ctx, false)
	o.gaveUp = o.err != nil && endedBy(w.ctx)
}

// endedBy reports that ctx has ended, or is about to: a socket with its deadline may be a moment quicker than its timer. The caller waits for
// that, and nobody else.
func endedBy(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && ctx.Done() != nil && !clock.Now().Before(d)
}

// run draws the conclusions from the first attempt, whose outcome is o, and goes on until the claim is granted or nobody wants it any more.
func (cl *claim) run(ctx context.Context, o outcome) {
	if cl.settle(o) {
		cl.goOn(ctx, o)
	}
}

// goOn makes further attempts after one whose outcome was o.
func (cl *claim) goOn(ctx context.Context, o outcome) {
	c, wake := cl.client, make(chan struct{}, 1)
	stopHints := func() {}
	defer func() { stopHints() }()
	hinted, waited, pause := false, false, minPause
	for again := true; again; again = cl.settle(o) {
		switch {
		case !errors.Is(o.err, ErrHeld):
			sleep(ctx, jitter(pause), nil)
			waited, pause = false, min(2*pause, maxPause)
		case c.waiter != nil && !waited:
			waited, pause = true, minPause // in the server's queue, without a pause
		default:
			waited, pause = false, minPause
			if c.notifier != nil && !hinted {
				hinted = true
				stopHints = c.notifier.Notify(cl.req, func() {
					select {
					case wake <- struct{}{}:
					default:
					}
				})
			}
			sleep(ctx, c.lookAgain(o.err), wake)
		}
		o = cl.attempt(ctx, waited)
	}
}

// sleep pauses for d, or until wake, if not nil, has an element, or ctx ends.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// attempt makes one request for the claim: TryAcquire, or Wait, which waits in the server's queue.
func (cl *claim) attempt(ctx context.Context, wait bool) outcome {
	c, cancel := cl.client, context.CancelFunc(nil)
	if cl.req.Owner == "" {
		cl.identify()
	}
	now, suspended := clock.Present()
	if !wait {
		ctx, cancel = context.WithDeadline(ctx, now.Add(min(cl.req.TTL, maxAttempt)))
		defer cancel()
	}
	c.mu.Lock()
	if cl.cancel == nil { // it is made on the goroutine of a caller
		cl.cancel = cancel
	}
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
	switch from := cl.queue.attached; {
	case from != nil:
		lease, err = c.attacher.Attach(ctx, cl.req, from.Owner, uint64(from.Token/driver.TokensPerGrant))
	case wait:
		lease, err = c.waiter.Wait(ctx, cl.req)
	default:
		lease, err = c.backend.TryAcquire(ctx, cl.req)
	}
	return c.newOutcome(lease, err, suspended)
}

// settle is conclude where the mutex is not held.
func (cl *claim) settle(o outcome) (again bool) {
	cl.client.mu.Lock()
	defer cl.client.mu.Unlock()
	return cl.conclude(o)
}

// conclude draws the conclusions from an attempt, which is to be made again, with the same owner, if it returns true. The mutex is held.
func (cl *claim) conclude(o outcome) (again bool) {
	if again = cl.judge(o); !again {
		cl.client.making--
		cl.client.checkIdle()
		if cl.cancel != nil {
			cl.cancel()
		}
		cl.cancel = nil // a lease should not keep a context
	}
	return again
}

// judge does what follows from an attempt. The mutex is held.
func (cl *claim) judge(o outcome) (again bool) {
	c, q, class := cl.client, cl.queue, classOf(o.err)
	if cl.detached() {
		if class == nil || class == driver.ErrUnknown || cl.queued {
			c.undoLater(undo{req: cl.req, lease: o.lease})
		}
		return false
	}
	if q.attached != nil && classOfRelease(o.err) == ErrLost {
		q.answerAll(o.err, nil)
		cl.leave()
		return false
	}
	if class == nil {
		now := c.now()
		deadline := c.deadline(o.grant.Until, o.suspended, cl.req.TTL)
		cl.lease, cl.token, cl.contended = o.lease, o.grant.Token, cl.contended || o.grant.Contended
		if q.attached != nil {
			cl.handOffs = int16(q.attached.Token % driver.TokensPerGrant)
		}
		switch {
		case cl.lostEarly != nil:
			o.err = fmt.Errorf("%w: the lock was lost as soon as it was granted: %w", driver.ErrUnknown, cl.lostEarly)
		case now >= deadline:
			o.err = fmt.Errorf("%w: the lock was granted too late, after its deadline", driver.ErrUnknown)
		case q.head.ttl != cl.req.TTL: // it was made for somebody with another TTL, who has gone
			c.undoLater(undo{req: cl.req, lease: cl.lease})
			cl.leave()
			return false
		default:
			cl.granted(deadline, now)
			return false
		}
		class = driver.ErrUnknown
	}
	if !o.gaveUp || class == ErrHeld || class == ErrRefused { // else it failed because a caller left, which says nothing to the others
		cl.answer(class, o.err)
	}
	undone := undo{req: cl.req, lease: cl.lease, heir: cl}
	switch {
	case q.head == nil:
		if class == driver.ErrUnknown || cl.queued {
			undone.heir = nil
			c.undoLater(undone)
		}
		cl.leave()
	case class == driver.ErrUnknown: // it may be held: another is made for those who wait when it is certain that it is not
		c.undoLater(undone)
	case class == ErrHeld && q.head.ttl != cl.req.TTL: // the server would go on queueing for the wrong TTL
		if cl.queued {
			undone.heir = nil
			c.undoLater(undone)
		}
		cl.leave()
	default:
		return true
	}
	return false
}

// answer tells those who need not wait any longer that an attempt failed with err, of this class. The mutex is held.
func (cl *claim) answer(class, err error) {
	q := cl.queue
	switch class {
	case ErrHeld:
		q.blocked = newHeldError(driver.Status{Name: q.name}, err)
		if !cl.foundHeld { // later there is nobody who was not told to wait
			cl.foundHeld = true
			q.answerAll(q.blocked, func(w *waiter) bool { w.waited = true; return w.try })
		}
	case ErrRefused:
		q.blocked = err
		q.answerAll(err, nil)
	default:
		q.blocked = unavailable(err)
		q.answerAll(q.blocked, func(w *waiter) bool { return !w.waited })
	}
}

// unavailable is err, which a driver returned, as ErrUnavailable. The end of a context in it is that of ours, not that of a caller.
func unavailable(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %v", ErrUnavailable, err)
	case errors.Is(err, ErrUnavailable):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
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
