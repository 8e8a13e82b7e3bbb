package lockport

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// claim is what the server sees of a name: one owner id. Fields without a remark are guarded by the client's mutex.
type claim struct {
	client *Client        // never changes
	queue  *queue         // never changes
	req    driver.Request // never changes, save Queue, which only the goroutine of run touches
	state  claimState

	// While it is being made.
	cancel    context.CancelFunc // ends the driver's call under way; nil: none
	wake      chan struct{}      // has an element when there is a reason to look again; nil until somebody looks
	gone      chan struct{}      // closed when nobody wants it any more; nil until somebody looks
	foundHeld bool               // the server has said that somebody else has the name
	queued    bool               // the server may have it in its queue
	lostEarly error              // it was lost before the grant was known

	// Once it is granted.
	lease     driver.Lease
	grant     driver.Grant
	grantedAt time.Duration
	deadline  atomic.Int64 // the instant at which it may no longer be believed, or never; written under the mutex
	hold      *Lock        // the present hold; nil: none (it is kept for MinHold, or ending)
	keepUntil time.Duration
	handOffs  int  // holds after the first
	contended bool // another client is known to wait
	since     int  // hand-offs since that was known

	renewAt  time.Duration
	renewing bool
	undo     bool          // it is to be undone when the renewal under way ends
	renewed  chan struct{} // closed when the renewal under way ends; nil: nobody waits for that

	due   time.Duration // when timers calls it; see there
	index int
}

type claimState int

const (
	claiming claimState = iota // being made, perhaps waiting for somebody else's
	held                       // granted: held, or kept for MinHold
	ending                     // being released
	over                       // no longer the queue's claim
)

// never is the deadline of a claim that ends only with its session or process.
const never = time.Duration(math.MaxInt64)

// margin is what a deadline keeps from the end of a validity: for clocks that run at different speeds, and for how
// late a timer may be.
func margin(ttl time.Duration) time.Duration { return ttl/20 + 10*time.Millisecond }

// startClaim makes the claim of q, which has a waiter and no claim, in the background. The mutex is held.
func (c *Client) startClaim(q *queue) {
	cl := c.newClaim(q)
	c.inBackground(func() { cl.run(cl.attempt(c.ctx, false)) })
}

// newClaim makes the claim of q for its first waiter, without starting it. The mutex is held.
func (c *Client) newClaim(q *queue) *claim {
	cl := &claim{client: c, queue: q}
	cl.req = driver.Request{
		Name:      q.name,
		Owner:     newOwner(c.identity),
		TTL:       q.head.ttl,
		Lost:      cl.toldLost,
		Contended: cl.toldContended,
	}
	q.claim = cl
	c.making++
	return cl
}

// granted makes the claim one that is held, and gives it to the first waiter. The mutex is held.
func (cl *claim) granted(deadline, now time.Duration) {
	cl.state = held
	cl.grantedAt = now
	cl.contended = cl.contended || cl.grant.Contended
	cl.deadline.Store(int64(deadline))
	cl.renewAt = never
	if deadline != never {
		cl.renewAt = renewalAfter(confirmed(deadline, cl.req.TTL, now), cl.req.TTL)
	}
	cl.give(now)
	for w := cl.queue.head; w != nil; w = w.next {
		w.waited = true
	}
	cl.queue.blocked = ErrHeld
}

// replace lets another claim take the place of cl, for those who wait. The mutex is held.
func (c *Client) replace(cl *claim) {
	cl.state = over
	foundHeld := cl.foundHeld
	c.startClaim(cl.queue)
	cl.queue.claim.foundHeld = foundHeld
}

// leave takes the claim out of its queue. The mutex is held.
func (cl *claim) leave() {
	cl.state = over
	cl.queue.claim = nil
	cl.client.tidy(cl.queue)
}

// detach takes a claim that nobody waits for any more out of its queue; run undoes it. The mutex is held.
func (cl *claim) detach() {
	cl.leave()
	if cl.cancel != nil {
		cl.cancel()
	}
	if cl.gone != nil {
		close(cl.gone)
	}
}

func (cl *claim) detached() bool { return cl.state == over }

// signal cuts a pause short.
func (cl *claim) signal() {
	select {
	case cl.wake <- struct{}{}:
	default:
	}
}

// sleep pauses for d, or until wake, if not nil, has an element, or nobody wants the claim any more.
func (cl *claim) sleep(d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
	case <-cl.gone:
	case <-timer.C:
	}
}

// toldLost is what a driver calls when the claim is gone.
func (cl *claim) toldLost(err error) {
	if err == nil {
		err = ErrLost
	}
	c := cl.client
	c.mu.Lock()
	defer c.unlock()
	switch cl.state {
	case claiming:
		if cl.lostEarly == nil {
			cl.lostEarly = err
		}
	case held:
		cl.lose(err)
	}
}

// toldContended is what a driver calls when another client waits for the name.
func (cl *claim) toldContended() {
	cl.client.mu.Lock()
	defer cl.client.mu.Unlock()
	cl.contended = true
}

// deadline is the instant until which a claim may be believed that is valid until until, by a request before which clock.Suspended was
// suspended.
func (c *Client) deadline(until time.Time, suspended, ttl time.Duration) time.Duration {
	if until.IsZero() {
		return never
	}
	// The validity may count from before the request: that of a lease which claims share.
	suspended = min(suspended, clock.SuspendedAt(until.Add(-ttl)))
	return until.Sub(c.base) + suspended - c.suspended - margin(ttl)
}

// classOf is the class of a driver's error: one of driver's errors, nil for nil. What claims to be several is the worst of them.
func classOf(err error) error {
	if err == nil {
		return nil
	}
	for _, class := range []error{driver.ErrUnknown, driver.ErrHeld, driver.ErrRefused, driver.ErrUnavailable} {
		if errors.Is(err, class) {
			return class
		}
	}
	return driver.ErrUnknown
}
