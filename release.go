package lockport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// releaseTimeout bounds a release, whatever its context says: a lock must be given back also when the work was cancelled.
const releaseTimeout = 5 * time.Second

// Release ends the hold and gives the lock to who waits for it. It takes at most 5 s, whether ctx ends or not; ctx's values reach
// the client library. ErrLost: it came too late, and somebody else may have held the lock meanwhile. ErrUnavailable, ErrRefused: the
// server did not confirm it; the hold has ended all the same, and the client goes on trying in the background, but others may have to wait
// for as long as the TTL. Repeated calls do nothing and return what the first returned.
func (l *Lock) Release(ctx context.Context) error {
	c, cl := l.client, l.claim
	c.mu.Lock()
	now := c.now()
	if cl.hold == l {
		cl.expire(now)
	}
	if e := l.ended.Load(); e != nil {
		under := l.release
		c.unlock()
		switch {
		case e.lost:
			return c.fail("release", l.Name(), e.err)
		case under != nil:
			<-under
			return l.outcome
		}
		return nil // done, handed off, or closed
	}
	l.finish(released)
	var err error
	if cl.next(now) && c.begin() {
		l.release = make(chan struct{})
		c.unlock()
		if err = cl.releaseInTime(context.WithoutCancel(ctx)); err != nil {
			err = c.fail("release", l.Name(), err)
		}
		l.outcome = err
		close(l.release)
	} else {
		c.unlock()
	}
	if c.cfg.hooks.Released != nil {
		c.cfg.hooks.Released(Ended{Name: l.Name(), Held: now - l.acquired, Token: l.token, Err: err})
	}
	return err
}

// releaseInTime is release, counted as work in the background already, for a caller who does not wait longer than releaseTimeout,
// whatever the client library does.
func (cl *claim) releaseInTime(ctx context.Context) error {
	background := &cl.client.background
	if cl.client.caps.Prompt {
		defer background.Done()
		return cl.release(ctx)
	}
	released := make(chan error, 1)
	go func() {
		defer background.Done()
		released <- cl.release(ctx)
	}()
	patience := time.NewTimer(releaseTimeout + 100*time.Millisecond)
	defer patience.Stop()
	select {
	case err := <-released:
		return err
	case <-patience.C:
		return fmt.Errorf("%w: no answer to the release", ErrUnavailable)
	}
}

// giveUp ends a hold that its caller never saw, and returns the claim if that is now to be released. The mutex is held.
func (l *Lock) giveUp() *claim {
	if l.finish(released) {
		l.claim.keepUntil = 0 // nobody has begun any work
		if l.claim.next(l.client.now()) {
			return l.claim
		}
	}
	return nil
}

// release gives a claim, whose state is ending, back to the server and lets the next one be made. It takes releaseTimeout at most, or until
// ctx ends.
func (cl *claim) release(ctx context.Context) error {
	c, q := cl.client, cl.queue
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	cl.joinRenewal(ctx)

	var next *claim
	c.mu.Lock()
	if q.head != nil && c.requeuer != nil {
		cl.state = over
		next = c.newClaim(q)
		next.foundHeld = true
		next.req.Queue, next.queued = c.caps.Queue, c.caps.Queue
	}
	c.mu.Unlock()
	var err error
	if next != nil {
		suspended := clock.Suspended()
		lease, released, claimErr := c.requeuer.Requeue(ctx, cl.lease, next.req)
		err = released
		o := newOutcome(lease, claimErr, suspended)
		c.mu.Lock()
		c.inBackground(func() { next.run(o) })
		c.unlock()
		if err != nil && classOfRelease(err) != ErrLost {
			err = cl.releaseAgain(ctx, err)
		}
	} else if err = cl.lease.Release(ctx, driver.ReleaseOptions{}); err != nil && classOfRelease(err) != ErrLost {
		err = cl.releaseAgain(ctx, err)
	}

	c.mu.Lock()
	defer c.unlock()
	if class := classOfRelease(err); class != nil && class != ErrLost {
		c.undoLater(cl.req, cl.lease)
	}
	if next == nil {
		if q.head != nil {
			c.replace(cl)
		} else {
			cl.leave()
		}
	}
	return err
}

// releaseAgain follows a release whose outcome, first, is not known: a connection that was closed while it lay idle deserves a second
// attempt. That the claim is gone by then is not a loss, unless its time was up.
func (cl *claim) releaseAgain(ctx context.Context, first error) error {
	err := first
	if classOfRelease(first) == driver.ErrUnknown && ctx.Err() == nil {
		err = cl.lease.Release(ctx, driver.ReleaseOptions{})
	}
	switch classOfRelease(err) {
	case ErrLost:
		if cl.client.now() < time.Duration(cl.deadline.Load()) {
			return nil
		}
	case driver.ErrUnknown:
		return fmt.Errorf("%w, and whether the lock was released is unknown: %w", ErrUnavailable, err)
	}
	return err
}

// classOfRelease is classOf for a release, where ErrLost is an answer too.
func classOfRelease(err error) error {
	if errors.Is(err, ErrLost) && !errors.Is(err, driver.ErrUnknown) {
		return ErrLost
	}
	return classOf(err)
}

// begin counts what the caller does as work in the background, which Close waits for. false: Close has finished, and it must not be
// done. The mutex is held.
func (c *Client) begin() bool {
	if c.ctx.Err() != nil {
		return false
	}
	c.background.Add(1)
	return true
}

// inBackground runs f in a goroutine that Close waits for. The mutex is held.
func (c *Client) inBackground(f func()) {
	if c.begin() {
		go func() {
			defer c.background.Done()
			f()
		}()
	}
}
