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

// Bounds of the pauses between attempts during an outage, and while a claim is undone.
const (
	minPause = 50 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

// nextPause is the pause after a failure that follows a pause of d.
func nextPause(d time.Duration) time.Duration { return min(max(2*d, minPause), maxPause) }

// maxAttempt bounds one request to the server. The TTL it asks for bounds it too.
const maxAttempt = 5 * time.Second

// The pauses of a polling waiter if the driver names none: as a safety net under notification, and without notification.
const (
	safetyNet   = time.Second
	defaultPoll = 250 * time.Millisecond
)

// outcome is the result of an attempt.
type outcome struct {
	lease     driver.Lease
	grant     driver.Grant // of the lease
	err       error
	suspended time.Duration // of clock.Present before the request
	gaveUp    bool          // the request ran on a caller's goroutine and was not refused, and that caller's context has ended
	abandoned bool          // the outcome was unknown, and the claim is now certainly gone
	refused   error         // the outcome was unknown, and the server refused to end the claim; nil: it did not
}

// newOutcome makes an outcome of a driver's results. It calls the lease without the mutex, which a driver's callbacks lock.
func (cl *claim) newOutcome(lease driver.Lease, err error, suspended time.Duration) outcome {
	o := outcome{lease: lease, err: err, suspended: suspended}
	switch {
	case classOf(err) == ErrLost && cl.queue.attached == nil: // it is an answer of Attach alone
		o.err = as(driver.ErrUnknown, err)
	case err != nil:
	case lease == nil:
		o.err = errors.New("the driver returned neither a lease nor an error")
	default:
		o.grant = lease.Grant()
		if _, ok := lease.(driver.Renewer); !ok && cl.client.batch == nil && !o.grant.Until.IsZero() {
			o.err = errors.New("the driver granted a lease that nothing can renew: make the lease a driver.Renewer, or its backend a driver.BatchRenewer")
		}
	}
	return o
}

// runHere makes the first attempt on w's goroutine, and leaves later ones to another. Afterwards w is answered, or waits for ready, or has given up
// because its context has ended.
func (cl *claim) runHere(w *waiter) (gaveUp bool) {
	c := cl.client
	o := outcome{err: driver.ErrUnknown, gaveUp: true} // if the driver panics
	defer c.background.Done()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if gaveUp = o.gaveUp; gaveUp {
			cl.queue.remove(w)
		}
		if cl.conclude(&o) {
			cl.runLater(w.ctx, o)
		}
		if !w.done() {
			w.ready = make(chan struct{})
		}
	}()
	o = cl.attempt(w.ctx, false)
	o.gaveUp = o.err != nil && classOf(o.err) != ErrRefused && hasEnded(w.ctx)
	return
}

// hasEnded reports whether ctx has ended or is about to: a socket with its deadline may end a moment before its timer. A failure from that concerns
// only the caller.
func hasEnded(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && ctx.Done() != nil && !time.Now().Before(d)
}

// runLater starts run in the background. It uses only the values of caller. The mutex is held.
func (cl *claim) runLater(caller context.Context, o outcome) {
	var ctx context.Context
	ctx, cl.cancel = context.WithCancel(context.WithoutCancel(caller))
	cl.client.inBackground(func() { cl.run(ctx, o) })
}

// run makes attempts until the claim is granted or nobody wants it any more. o is the outcome of an attempt already made, or zero.
func (cl *claim) run(ctx context.Context, o outcome) {
	c, wake := cl.client, make(chan struct{}, 1)
	listening, wait, pause, undoing := false, false, time.Duration(0), time.Duration(0)
	for again := true; again; again = cl.settle(&o) {
		switch class := classOf(o.err); {
		case class == nil: // no attempt was made yet
		case class == driver.ErrUnknown: // it may be held: waiters get another claim once it certainly is not
			sleep(ctx, jitter(undoing), nil)
			undoing = nextPause(undoing)
			if err := cl.abandon(ctx); err == nil {
				sleep(ctx, jitter(minPause), nil) // the server may never be able to confirm a grant
				o = outcome{abandoned: true}
			} else {
				o = outcome{lease: o.lease, err: as(driver.ErrUnknown, err)}
				if classOf(err) == ErrRefused {
					o.refused = fmt.Errorf("%w; an earlier request without an answer may have taken the lock", err)
				}
			}
			continue
		case class != ErrHeld:
			pause = nextPause(pause)
			sleep(ctx, jitter(pause), nil)
			wait = false
		case c.waiter != nil && !wait:
			wait = true // in the server's queue, without a pause
		default:
			wait, pause = false, 0
			if c.notifier != nil && !listening {
				listening = true
				defer c.notifier.Notify(cl.req, func() {
					select {
					case wake <- struct{}{}:
					default:
					}
				})() // until the claim is made or given up
			}
			sleep(ctx, c.pollAfter(o.err), wake)
		}
		o = cl.attempt(ctx, wait)
	}
}

// sleep pauses until d has passed, wake (if not nil) has an element, or ctx ends.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	select {
	case <-wake:
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// attempt makes one request for the claim: Attach, TryAcquire, or Wait, which waits in the server's queue.
func (cl *claim) attempt(ctx context.Context, wait bool) outcome {
	c, cancel := cl.client, context.CancelFunc(nil)
	now, suspended := clock.Present()
	limit := min(cl.req.TTL, maxAttempt)
	if !wait {
		ctx, cancel = context.WithDeadline(ctx, now.Add(limit))
		defer cancel()
	}
	c.mu.Lock()
	if cl.cancel == nil { // it is made on a caller's goroutine
		cl.cancel = cancel
	} else if !wait {
		defer time.AfterFunc(limit+100*time.Millisecond, cl.overdue).Stop()
	}
	if cl.state == gone {
		c.mu.Unlock()
		return outcome{err: driver.ErrUnavailable} // no request was sent
	}
	// A claim that has asked for a place in the server's queue goes on asking, so that conclude undoes it.
	cl.req.Queue = cl.req.Queue || c.caps.Queue && !cl.queue.head().try
	c.mu.Unlock()
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
	return cl.newOutcome(lease, err, suspended)
}

// overdue ends the waits for a first attempt whose client library ignores its context. If nobody waits then, the claim is undone once that returns.
func (cl *claim) overdue() {
	cl.client.mu.Lock()
	defer cl.client.mu.Unlock()
	if q := cl.queue; q.claim == cl && cl.state == claiming && q.blocked == nil {
		cl.answer(driver.ErrUnknown, fmt.Errorf("%w: %w", ErrUnavailable, errNoAnswer))
		q.stopIfUnwanted()
	}
}

// settle is conclude for a caller without the mutex.
func (cl *claim) settle(o *outcome) (again bool) {
	cl.client.mu.Lock()
	defer cl.client.mu.Unlock()
	return cl.conclude(o)
}

// conclude acts on the outcome of an attempt. true: another one follows, with the same owner. The mutex is held.
func (cl *claim) conclude(o *outcome) (again bool) {
	defer func() {
		if again {
			return
		}
		cl.client.settled()
		if cl.cancel != nil {
			cl.cancel()
		}
		cl.cancel = nil // a lease should not keep a context
	}()
	c, q, class := cl.client, cl.queue, classOf(o.err)
	cl.lease = o.lease
	switch {
	case o.abandoned:
		cl.leave()
		return false
	case cl.state == gone:
		if class == nil || class == driver.ErrUnknown || cl.req.Queue {
			cl.undoLater()
		}
		return false
	case class == nil:
		now := c.now()
		deadline := c.deadline(o.grant.Until, o.suspended, cl.req.TTL)
		cl.token, cl.contended = o.grant.Token, cl.contended || o.grant.Contended
		if q.attached != nil {
			cl.handOffs = int16(q.attached.Token % driver.TokensPerGrant)
		}
		switch {
		case cl.lostEarly != nil:
			o.err = fmt.Errorf("%w: the lock was lost as soon as it was granted: %v", driver.ErrUnknown, cl.lostEarly)
		case now >= deadline:
			o.err = fmt.Errorf("%w: the lock was granted too late, after its deadline", driver.ErrUnknown)
		case q.head().ttl != cl.req.TTL: // it was made for a waiter with another TTL, which has left
			cl.undoLater()
			cl.leave()
			return false
		default:
			cl.granted(deadline, now)
			return false
		}
		class = driver.ErrUnknown
	}
	switch {
	case o.refused != nil: // to end the claim is left to undoLater
		q.answerAll(o.refused, false)
	case !o.gaveUp || class == ErrHeld: // else it failed by its caller's context, which does not concern the others
		cl.answer(class, o.err)
	}
	// A driver forgets a claim that has no place in its queue. A repetition with the same owner would meet what is left of it, such as a late release.
	goesOn := class == driver.ErrUnknown || cl.req.Queue || !c.caps.Queue
	if w := q.head(); w != nil && goesOn && (class != ErrHeld || w.ttl == cl.req.TTL) {
		return true
	}
	if class == driver.ErrUnknown || cl.req.Queue { // the server may keep a queue entry that nobody wants, or with the wrong TTL
		cl.undoLater()
	}
	cl.leave()
	return false
}

// answer ends the waits that need not continue after a failure with err, of class class. Waiters that were told to wait ride out an outage. The mutex
// is held.
func (cl *claim) answer(class, err error) {
	q := cl.queue
	first := q.blocked == nil // nobody was told to wait yet
	switch class {
	case ErrHeld:
		q.blocked = newHeldError(q.name, err)
		if first {
			q.answerAll(q.blocked, true)
		}
	case ErrRefused, ErrLost:
		q.answerAll(err, false)
	default:
		if q.blocked = unavailable(err); first {
			q.answerAll(q.blocked, false)
		}
	}
}

// unavailable returns a driver's error as ErrUnavailable. A context error in it is from the client's context, not the caller's, so it is hidden.
func unavailable(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return as(ErrUnavailable, err)
	case errors.Is(err, ErrUnavailable):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// pollAfter is how long a waiter that found the name held waits for a notification before it polls.
func (c *Client) pollAfter(err error) time.Duration {
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

// jitter keeps the waiters of many processes from polling in step.
func jitter(d time.Duration) time.Duration {
	d = min(d, time.Hour)
	return d - d/10 + rand.N(d/5+1)
}
