package lockport

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// claim is what the server sees of a name: one owner id. Fields without a remark are guarded by the client's mutex. There is one for each lock that
// is held, so it is kept small.
type claim struct {
	client *Client        // never changes
	queue  *queue         // never changes
	req    driver.Request // complete after identify, which the maker of the claim calls; Queue is touched by the goroutine that makes it alone
	state  claimState

	contended bool // another client is known to wait
	renewing  bool // a renewal is under way
	undo      bool // it is to be undone when that renewal ends

	handOffs int16 // holds after the first
	since    int16 // hand-offs since contended was known
	index    int32 // in timers; see there

	cancel    context.CancelFunc // ends what makes it
	lostEarly error              // it was lost before its grant was known
	renewed   chan struct{}      // closed when the renewal under way ends; nil: nobody waits for that

	// Once it is granted.
	lease     driver.Lease
	token     uint64 // of the grant; 0: none
	grantedAt time.Duration
	deadline  atomic.Int64  // the instant at which it may no longer be believed, or never; written under the mutex
	holds     *Lock         // the present ones, the first of a list; only a shared claim has more than one; nil: none (it is kept for MinHold, or ending)
	limit     time.Duration // no later than the first limit of the holds
	keepUntil time.Duration
	renewAt   time.Duration
	due       time.Duration // when timers calls it; see there

	releaser *Lock          // the hold whose Release gives the claim back; nil: none
	released sync.WaitGroup // that release under way
	outcome  error          // what that returned, readable once it is done

	first Lock // the hold that it was made for
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

// newClaim makes the claim of q for its first waiter, without starting it. The mutex is held.
func (c *Client) newClaim(q *queue) *claim {
	cl := &claim{client: c, queue: q, req: driver.Request{Name: q.name, TTL: q.head.ttl, Shared: q.shared, Permits: int(q.permits)}}
	q.claim = cl
	c.unsettled++
	return cl
}

// startClaim makes the claim of q, which has a waiter and no claim, in the background. The mutex is held.
func (c *Client) startClaim(q *queue) {
	cl := c.newClaim(q)
	ctx := cl.ownContext(q.head.ctx)
	c.inBackground(func() { cl.run(ctx, outcome{}) })
}

// ownContext is the context in which the claim is made: it has the values of the caller that it is made for, but does not end with it. The mutex is
// held.
func (cl *claim) ownContext(caller context.Context) (ctx context.Context) {
	ctx, cl.cancel = context.WithCancel(context.WithoutCancel(caller))
	return ctx
}

// identify completes the request of a claim that is about to be made, outside the mutex, since that takes its time.
func (cl *claim) identify() {
	cl.req.Owner, cl.req.Lost, cl.req.Contended = newOwner(cl.client.identity), cl.toldLost, cl.toldContended
}

// granted makes the claim one that is held, and gives it to the first waiter, and if it is shared to the others too. The mutex is held.
func (cl *claim) granted(deadline, now time.Duration) {
	cl.state = held
	cl.grantedAt = now
	cl.deadline.Store(int64(deadline))
	cl.renewAt = never
	if deadline != never {
		cl.renewAt = renewalAfter(deadline, cl.req.TTL, now)
	}
	cl.limit = never
	q := cl.queue
	cl.give(q.head, now)
	if !q.several() {
		q.blocked = ErrHeld
		return
	}
	q.claim, q.newest = nil, cl
	q.beside[cl] = struct{}{}
	cl.admit(now)
	cl.client.claimForNext(q)
}

// claimForNext starts a claim for those who wait in q, if there are any and none is being made. The mutex is held.
func (c *Client) claimForNext(q *queue) {
	if q.head != nil && q.claim == nil {
		c.startClaim(q)
	}
}

// leave takes the claim, which has ended, out of its queue, and lets another be made for those who wait. The mutex is held.
func (cl *claim) leave() {
	q := cl.queue
	if cl.state = over; q.claim == cl {
		q.claim = nil
	}
	if q.newest == cl {
		q.newest = nil
	}
	delete(q.beside, cl)
	cl.client.claimForNext(q)
	cl.client.tidy(q)
}

// detach takes a claim that is being made, and that nobody waits for any more, out of its queue. What makes it undoes it. The mutex is held.
func (cl *claim) detach() {
	cl.leave()
	if cl.cancel != nil {
		cl.cancel()
	}
}

func (cl *claim) detached() bool { return cl.state == over }

// toldLost is what a driver calls when the claim is gone.
func (cl *claim) toldLost(err error) {
	if err == nil {
		err = ErrLost
	}
	cl.client.mu.Lock()
	defer cl.client.mu.Unlock()
	switch {
	case cl.state == claiming && cl.lostEarly == nil:
		cl.lostEarly = err
	case cl.state == held:
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

// classOfRelease is classOf for a release or a renewal, where ErrLost is an answer too.
func classOfRelease(err error) error {
	if errors.Is(err, ErrLost) && !errors.Is(err, driver.ErrUnknown) {
		return ErrLost
	}
	return classOf(err)
}
