package lockport

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// releaseTimeout bounds a release. ctx does not bound it: a lock must be released even if the work was canceled.
const releaseTimeout = 5 * time.Second

// lostAfter is how long a request that ends a claim waits for its answer before it is repeated. A server or connection that ends may lose it silently.
const lostAfter = releaseTimeout / 2

// Release ends the hold and gives the lock to the next waiter. It takes at most 5 s, whether ctx ends or not; ctx's values reach the client library.
// ErrLost: Release came too late, and another process may have held the lock meanwhile. ErrUnavailable, ErrRefused: the server did not confirm the
// release. The hold has ended anyway, and the client keeps trying in the background, but others may wait for up to the TTL. Repeated calls do nothing
// and return the first result.
func (l *Lock) Release(ctx context.Context) (err error) {
	c := l.claim.client
	_ = ctx.Err() // panics if ctx is nil, before anything has changed
	c.mu.Lock()
	now := c.now()
	if e := l.endAt(now); e != nil {
		c.mu.Unlock()
		if e.lost {
			return c.fail("release", l.Name(), e.err)
		}
		l.releasing.Wait()
		return l.outcome
	}
	l.finish(released)
	atServer := l.leaves(now) && c.begin()
	if atServer {
		l.releasing.Add(1)
	}
	c.mu.Unlock()
	if atServer {
		err = l.releaseInTime(ctx)
	}
	c.reportReleased(l.event(now, err))
	return err
}

// leaves removes l, which has ended, from its claim or its outer hold. true: the claim must be released. The mutex is held.
func (l *Lock) leaves(now time.Duration) (release bool) {
	if l.outer != nil {
		delete(l.outer.watchers, l)
		return false
	}
	l.claim.remove(l)
	return l.claim.next(now)
}

// releaseInTime releases the claim for a caller that waits for at most releaseTimeout, whatever the client library does. The release already counts
// as background work. It uses only the values of ctx.
func (l *Lock) releaseInTime(ctx context.Context) (err error) {
	c, cl := l.claim.client, l.claim
	defer l.releasing.Done() // also if the driver panics
	release := func() error {
		defer c.background.Done()
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		return cl.release(call)
	}
	if c.caps.Prompt {
		err = release()
	} else {
		err = inTime(releaseTimeout+100*time.Millisecond, "no answer to the release", release)
	}
	if err != nil {
		err = c.fail("release", l.Name(), err)
	}
	l.outcome = err
	return err
}

// releaseUnseen is release if no caller waits for its outcome. It ends with the client.
func (cl *claim) releaseUnseen() {
	ctx, cancel := context.WithTimeout(cl.client.ctx, releaseTimeout)
	defer cancel()
	_ = cl.release(ctx)
}

// release releases a claim in the state ending at the server, and lets the next one be made. It returns when ctx ends, at the latest.
func (cl *claim) release(ctx context.Context) (err error) {
	c, q := cl.client, cl.queue
	var next *claim
	c.mu.Lock()
	lease := cl.joinRenewal(ctx)
	// A polling client is not known to wait, and needs a moment in which the name is free. If nobody is known to wait, a requeue leaves none.
	if q.claim == cl && q.head() != nil && c.requeuer != nil && cl.isContended() && !cl.detaching && lease != nil {
		cl.state = gone
		next = c.newClaim(q)
		next.req.Queue = c.caps.Queue
		c.unsettled++ // so that Close waits for cl, which has left its queue
	}
	c.mu.Unlock()
	err = driver.ErrUnknown // if the driver panics
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if class := classOf(err); class != nil && class != ErrLost {
			cl.undoLater()
		}
		if next == nil {
			cl.leave()
		} else {
			c.settled()
		}
	}()
	first, cancel := context.WithTimeout(ctx, lostAfter)
	defer cancel()
	switch {
	case lease == nil:
		return fmt.Errorf("%w: a renewal or Detach under way has not returned", ErrUnavailable)
	case next != nil:
		err = cl.requeue(first, next)
	default:
		err = lease.Release(first)
	}
	for range 2 { // the second attempt may use the connection of the first, and end with it
		if class := classOf(err); ctx.Err() != nil || class != driver.ErrUnknown && (class != ErrUnavailable || first.Err() == nil) {
			break
		}
		err = cl.releaseAgain(ctx)
	}
	if classOf(err) == driver.ErrUnknown {
		err = fmt.Errorf("%w, and whether the lock was released is unknown: %w", ErrUnavailable, err)
	}
	return err
}

// requeue releases cl and makes next in one request. It concludes next even if the driver panics.
func (cl *claim) requeue(ctx context.Context, next *claim) error {
	c, o := cl.client, outcome{err: driver.ErrUnknown}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if next.conclude(&o) {
			next.runLater(ctx, o)
		}
	}()
	_, suspended := clock.Present()
	lease, released, err := c.requeuer.Requeue(ctx, cl.lease, next.req)
	o = next.newOutcome(lease, err, suspended)
	return released
}

// releaseAgain repeats a release that got no answer: an idle connection may have been closed. If the claim is gone by now, that is not a loss, unless
// its time was up.
func (cl *claim) releaseAgain(ctx context.Context) error {
	err := cl.lease.Release(ctx)
	if classOf(err) == ErrLost && cl.client.now() < time.Duration(cl.deadline.Load()) {
		return nil
	}
	return err
}
