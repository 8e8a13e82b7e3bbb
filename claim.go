package lockport

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/bounded"
	"github.com/lockport/lockport/internal/clock"
)

// claim is what the server sees of a name: one owner id. Fields without a remark are guarded by the client's mutex. There is one for each lock that
// is held, so it is kept small.
type claim struct {
	client *Client        // never changes
	queue  *queue         // never changes
	req    driver.Request // complete after identify, which who makes the claim calls; Queue is touched by the goroutine of run alone
	state  claimState

	foundHeld bool // while it is made: the server has said that somebody else has the name
	queued    bool // while it is made: the server may have it in its queue
	contended bool // another client is known to wait
	renewing  bool // a renewal is under way
	undo      bool // it is to be undone when that renewal ends

	handOffs int16 // holds after the first
	since    int16 // hand-offs since contended was known
	index    int32 // in timers; see there

	call   *bounded.Context // of the driver's call under way, while it is made; nil: none
	seldom *seldom          // nil until it is needed

	// Once it is granted.
	lease     driver.Lease
	token     uint64 // of the grant; 0: none
	grantedAt time.Duration
	deadline  atomic.Int64 // the instant at which it may no longer be believed, or never; written under the mutex
	hold      *Lock        // the present hold; nil: none (it is kept for MinHold, or ending)
	keepUntil time.Duration
	renewAt   time.Duration
	due       time.Duration // when timers calls it; see there

	first Lock // the hold that it was made for
}

// seldom is what most claims never need. Guarded by the client's mutex; wake and gone do not change once they are there, before somebody looks at them.
type seldom struct {
	// While it is being made.
	wake      chan struct{} // has an element when there is a reason to look again
	gone      chan struct{} // closed when nobody wants it any more
	lostEarly error         // it was lost before the grant was known

	renewed chan struct{} // closed when the renewal under way ends; nil: nobody waits for that
}

// rarely is the claim's seldom, made if need be. The mutex is held.
func (cl *claim) rarely() *seldom {
	if cl.seldom == nil {
		cl.seldom = new(seldom)
	}
	return cl.seldom
}

// lostEarly is why the claim was lost before its grant was known; nil: it was not. The mutex is held.
func (cl *claim) lostEarly() error {
	if cl.seldom == nil {
		return nil
	}
	return cl.seldom.lostEarly
}

type claimState uint8

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
	cl := &claim{client: c, queue: q, req: driver.Request{Name: q.name, TTL: q.head.ttl}}
	q.claim = cl
	c.making++
	return cl
}

// identify completes the request of a claim that is about to be made, outside the mutex, since that takes its time.
func (cl *claim) identify() {
	cl.req.Owner, cl.req.Lost, cl.req.Contended = newOwner(cl.client.identity), cl.toldLost, cl.toldContended
}

// granted makes the claim one that is held, and gives it to the first waiter. The mutex is held.
func (cl *claim) granted(deadline, now time.Duration) {
	cl.state = held
	cl.grantedAt = now
	cl.deadline.Store(int64(deadline))
	cl.renewAt = never
	if deadline != never {
		cl.renewAt = renewalAfter(confirmed(deadline, cl.req.TTL, now), cl.req.TTL)
	}
	cl.give(now)
	for w := cl.queue.tail; w != nil && !w.waited; w = w.prev { // those before were told already
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
	if cl.call != nil {
		cl.call.Cancel()
	}
	if cl.seldom != nil && cl.seldom.gone != nil {
		close(cl.seldom.gone)
	}
}

func (cl *claim) detached() bool { return cl.state == over }

// signal cuts a pause short. It is for a claim that is prepared to wait.
func (cl *claim) signal() {
	select {
	case cl.seldom.wake <- struct{}{}:
	default:
	}
}

// sleep pauses for d, or until wake, if not nil, has an element, or nobody wants the claim any more. It is for a claim that is prepared to wait.
func (cl *claim) sleep(d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
	case <-cl.seldom.gone:
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
		if cl.lostEarly() == nil {
			cl.rarely().lostEarly = err
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
