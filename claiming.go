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

// nextPause is the pause after a failure that follows a pause of d.
func nextPause(d time.Duration) time.Duration { return min(max(2*d, minPause), maxPause) }

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
	abandoned bool          // the claim, whose outcome was unknown, certainly is none
	pause     time.Duration // before it is abandoned again; 0: it was not yet
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
		if o.gaveUp = o.gaveUp && !w.done(); o.gaveUp {
			cl.queue.drop(w)
		}
		if cl.conclude(&o) {
			ctx := cl.ownContext(w.ctx)
			c.inBackground(func() { cl.run(ctx, o) })
		}
		if !w.done() {
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

// run makes attempts, after one whose outcome was o if there was one, until the claim is granted or nobody wants it any more.
func (cl *claim) run(ctx context.Context, o outcome) {
	c, wake := cl.client, make(chan struct{}, 1)
	var stopHints func()
	defer func() {
		if stopHints != nil {
			stopHints()
		}
	}()
	wait, pause := false, time.Duration(0)
	for again := true; again; again = cl.settle(&o) {
		switch class := classOf(o.err); {
		case class == nil: // there was none
		case class == driver.ErrUnknown: // it may be held: another is made for those who wait when it is certain that it is not
			if o.pause > 0 {
				sleep(ctx, jitter(o.pause), nil)
			}
			if err := abandon(ctx, c.backend, cl.req, o.lease); err == nil {
				o = outcome{abandoned: true}
			} else {
				o = outcome{lease: o.lease, err: fmt.Errorf("%w: %w", driver.ErrUnknown, err), pause: nextPause(o.pause)}
			}
			continue
		case class != ErrHeld:
			pause = nextPause(pause)
			sleep(ctx, jitter(pause), nil)
			wait = false
		case c.waiter != nil && !wait:
			wait, pause = true, 0 // in the server's queue, without a pause
		default:
			wait, pause = false, 0
			if c.notifier != nil && stopHints == nil {
				stopHints = c.notifier.Notify(cl.req, func() {
					select {
					case wake <- struct{}{}:
					default:
					}
				})
			}
			sleep(ctx, c.lookAgain(o.err), wake)
		}
		o = cl.attempt(ctx, wait)
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
func (cl *claim) settle(o *outcome) (again bool) {
	cl.client.mu.Lock()
	defer cl.client.mu.Unlock()
	return cl.conclude(o)
}

// conclude draws the conclusions from an attempt. true: run goes on, with the same owner. The mutex is held.
func (cl *claim) conclude(o *outcome) (again bool) {
	if again = cl.judge(o); !again {
		cl.client.settled()
		if cl.cancel != nil {
			cl.cancel()
		}
		cl.cancel = nil // a lease should not keep a context
	}
	return again
}

// judge does what follows from an attempt. The mutex is held.
func (cl *claim) judge(o *outcome) (again bool) {
	c, q, class := cl.client, cl.queue, classOf(o.err)
	switch {
	case o.abandoned:
		if !cl.detached() {
			cl.leave()
		}
		return false
	case cl.detached():
		if class == nil || class == driver.ErrUnknown || cl.req.Queue {
			c.undoLater(cl.req, o.lease)
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
			c.undoLater(cl.req, cl.lease)
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
	if q.head != nil && (class != ErrHeld || q.head.ttl == cl.req.TTL) {
		return true
	}
	if class == driver.ErrUnknown || cl.req.Queue { // the server may go on queueing for nobody, or for the wrong TTL
		c.undoLater(cl.req, o.lease)
	}
	cl.leave()
	return false
}

// answer tells those who need not wait any longer that an attempt failed with err, of this class: a caller who was told to wait rides out an outage. The
// mutex is held.
func (cl *claim) answer(class, err error) {
	q := cl.queue
	first := q.blocked == nil // nobody was told to wait
	switch class {
	case ErrHeld:
		q.blocked = newHeldError(driver.Status{Name: q.name}, err)
		if first {
			q.answerAll(q.blocked, func(w *waiter) bool { return w.try })
		}
	case ErrRefused:
		q.answerAll(err, nil)
	default:
		if q.blocked = unavailable(err); first {
			q.answerAll(q.blocked, nil)
		}
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
