package lockport

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// claim is one owner id that requests or has a name at the server. The client's mutex guards fields without a remark. Each held lock has one, so it
// is kept small.
type claim struct {
	client *Client        // never changes
	queue  *queue         // never changes
	req    driver.Request // only the goroutine that makes the claim touches Queue
	state  claimState

	contended bool // another client is known to wait
	detaching bool // a Detach is under way, or has taken the claim's lease: the claim serves no other caller

	handOffs int16 // holds after the first
	since    int16 // hand-offs while contended
	index    int32 // in timers, see dueFirst

	cancel    context.CancelFunc // ends the attempts to make it
	lostEarly error              // reported before its grant was known
	renewal   chan struct{}      // closed when the renewal, or the Detach, under way ends; nil: none is

	// Set by the grant.
	lease     driver.Lease
	token     uint64 // of the grant; 0: none
	grantedAt time.Duration
	deadline  atomic.Int64  // when its validity ends, less the margin, or never; written under the mutex
	holds     []*Lock       // the present ones, more than one only if shared; none: kept for MinHold, or ending
	limit     time.Duration // no later than the earliest limit of the holds
	keepUntil time.Duration
	renewAt   time.Duration
	due       time.Duration // when timers acts on it

	first Lock // the hold it was made for; later ones were handed off
}

type claimState uint8

const (
	claiming claimState = iota // being made, perhaps waiting for another holder
	held                       // granted, and held or kept for MinHold
	ending                     // being released
	gone                       // no longer the queue's claim
)

// never is the deadline of a claim that ends only with its session or process.
const never = time.Duration(math.MaxInt64)

// margin is how long before the end of a validity the deadline comes. It covers clocks that run at different speeds, and late timers.
func margin(ttl time.Duration) time.Duration { return ttl/20 + 10*time.Millisecond }

// newClaim makes the claim of q for its first waiter, and sends no request. The mutex is held.
func (c *Client) newClaim(q *queue) *claim {
	cl := &claim{client: c, queue: q}
	cl.req = driver.Request{
		Name: q.name, Owner: newOwner(c.identity), TTL: q.head().ttl, Shared: q.shared, Permits: int(q.permits),
		Lost: cl.onLost, Contended: cl.onContended,
	}
	q.claim = cl
	c.unsettled++
	return cl
}

// granted makes the claim held, and gives it to the first waiter. A shared claim goes to the other waiters too. The mutex is held.
func (cl *claim) granted(deadline, now time.Duration) {
	cl.state = held
	cl.grantedAt = now
	cl.deadline.Store(int64(deadline))
	cl.renewAt = never
	if deadline != never {
		cl.renewAt = renewalAfter(deadline, cl.req.TTL, now)
	}
	q := cl.queue
	cl.give(q.head(), now)
	if !q.several() {
		q.blocked = errHeldHere
		return
	}
	q.claim = nil
	q.grants = append(q.grants, cl)
	cl.admit(now)
	cl.client.claimForNext(q)
}

// claimForNext starts a claim in the background if q has waiters and no claim. The mutex is held.
func (c *Client) claimForNext(q *queue) {
	if q.head() != nil && q.claim == nil {
		c.newClaim(q).runLater(q.head().ctx, outcome{})
	}
}

// leave removes the ended claim from its queue, and starts another if there are waiters. The mutex is held.
func (cl *claim) leave() {
	q := cl.queue
	if cl.state = gone; q.claim == cl {
		q.claim = nil
	}
	q.grants = slices.DeleteFunc(q.grants, func(other *claim) bool { return other == cl })
	cl.client.claimForNext(q)
	cl.client.tidy(q)
}

// expire ends the holds, and the claim, whose time is up. true: the claim has ended. The mutex is held.
func (cl *claim) expire(now time.Duration) bool {
	switch {
	case cl.state != held:
		return false
	case now >= time.Duration(cl.deadline.Load()):
		cl.lose(ErrSilence)
	case len(cl.holds) > 0 && now >= cl.limit:
		return cl.expireHolds(now)
	default:
		return false
	}
	return true
}

// expireHolds ends the holds that have reached MaxHold, and the claim if they were its last. The mutex is held.
func (cl *claim) expireHolds(now time.Duration) (over bool) {
	cl.limit = never
	for _, l := range slices.Clone(cl.holds) {
		switch {
		case now < l.limit:
			cl.limit = min(cl.limit, l.limit)
		case len(cl.holds) == 1 && now >= cl.keepUntil:
			cl.lose(ErrMaxHold)
			return true
		default: // others hold the claim, or it is kept for the MinHold of one that has ended
			cl.remove(l)
			l.end(&end{err: fmt.Errorf("%w: %w", ErrLost, ErrMaxHold), lost: true})
		}
	}
	return false
}

// lose ends the held claim and its holds for reason, and undoes what may be left at the server. The mutex is held.
func (cl *claim) lose(reason error) {
	if !errors.Is(reason, ErrLost) {
		reason = fmt.Errorf("%w: %w", ErrLost, reason)
	}
	for _, l := range cl.holds {
		l.end(&end{err: reason, lost: true})
	}
	cl.holds = nil
	cl.client.timers.remove(cl)
	cl.undoLater()
	cl.leave()
}

// onLost is Request.Lost: the driver calls it when the claim is gone.
func (cl *claim) onLost(err error) {
	if err == nil {
		err = ErrLost
	}
	cl.client.mu.Lock()
	defer cl.client.mu.Unlock()
	switch {
	case cl.state == claiming:
		cl.lostEarly = err
	case cl.state == held:
		cl.lose(err)
	}
}

// onContended is Request.Contended: the driver calls it when another client waits for the name.
func (cl *claim) onContended() {
	cl.client.mu.Lock()
	defer cl.client.mu.Unlock()
	cl.contended = true
}

// deadline returns when a claim that is valid until until must no longer be trusted. suspended is that of clock.Present before the request.
func (c *Client) deadline(until time.Time, suspended, ttl time.Duration) time.Duration {
	if until.IsZero() {
		return never
	}
	// A lease that several claims share may count its validity from before the request.
	suspended = min(suspended, clock.SuspendedAt(c.countedFrom(until, ttl)))
	return until.Sub(c.base) + suspended - c.suspended - margin(ttl)
}

// countedFrom is the instant from which the validity until until counts. The server rounded the TTL up, unless it is that of a session.
func (c *Client) countedFrom(until time.Time, ttl time.Duration) time.Time {
	if grain := c.caps.TTLGrain; grain > 0 && c.caps.FixedTTL == 0 && ttl%grain > 0 {
		ttl += grain - ttl%grain
	}
	return until.Add(-ttl)
}

// classOf returns the class of a driver's error, nil for nil. If the error matches several classes, the worst one counts.
func classOf(err error) error {
	if err == nil {
		return nil
	}
	for _, class := range []error{driver.ErrUnknown, ErrLost, ErrHeld, ErrRefused, ErrUnavailable} {
		if errors.Is(err, class) {
			return class
		}
	}
	return driver.ErrUnknown
}
