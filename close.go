package lockport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// closePatience is how long Close keeps releasing claims. It then waits as long again for backend calls that do not return, and for the backend's
	// Close.
	closePatience = 5 * time.Second
	// maxReleasers bounds the goroutines with which Close releases.
	maxReleasers = 64
)

// Close implements Locker. Waiting callers and holds get ErrClosed, and the holds are released. Close waits for locks kept by MinHold. Locks that the
// server does not confirm as released within 5 s end with their TTL or session; the error counts them. After 5 s more it gives up on backend calls
// that do not return; the backend's own Close gets another 5 s. Repeated calls wait for the first and return its result. Close your server's client
// after it.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.done
		return c.closeErr
	}
	c.closed = true
	idle := make(chan struct{})
	c.idle = idle
	kept := c.endAll()
	c.checkIdle()
	c.mu.Unlock()

	sleep(context.Background(), after(kept, closePatience), idle)
	c.mu.Lock()
	left := len(c.queues) + c.unsettled
	c.stop() // from here on nothing begins
	if t := c.timers.timer; t != nil {
		t.Stop()
	}
	c.mu.Unlock()
	_ = inTime(closePatience, "a call of the backend has not returned", func() error { c.background.Wait(); return nil })

	if left > 0 {
		c.closeErr = fmt.Errorf("%w: claims that may remain at the server: %d; they end with their TTL or session", ErrUnavailable, left)
	}
	c.closeErr = join(c.closeErr, inTime(closePatience, "the backend's Close has not returned", c.backend.Close))
	if c.closeErr != nil {
		c.closeErr = c.fail("close", "", c.closeErr)
	}
	close(c.done)
	return c.closeErr
}

// endAll ends all waits, claims and holds, and starts to release what was held. It returns how long MinHold keeps some claims. The mutex is held.
func (c *Client) endAll() (kept time.Duration) {
	now := c.now()
	var claims []*claim
	for _, q := range c.queues {
		q.answerAll(ErrClosed, false)
		q.stopIfUnwanted()
		for _, cl := range append(slices.Clone(q.grants), q.claim) {
			if cl == nil || cl.expire(now) || cl.state != held { // lost before it was closed, or being made or released
				continue
			}
			for _, l := range cl.holds {
				l.end(closed)
				cl.keepUntil = max(cl.keepUntil, l.keep)
			}
			cl.holds = nil
			if cl.next(now) {
				claims = append(claims, cl)
			} else {
				kept = max(kept, cl.keepUntil-now)
			}
		}
	}
	c.inBackground(func() {
		inParallel(len(claims), maxReleasers, func(i int) {
			if c.ctx.Err() == nil {
				claims[i].releaseUnseen()
			}
		})
	})
	return kept
}

// settled notes that one claim is no longer being made or undone. The mutex is held.
func (c *Client) settled() {
	c.unsettled--
	c.checkIdle()
}

// checkIdle tells Close when nothing is left to release. The mutex is held.
func (c *Client) checkIdle() {
	if c.idle != nil && len(c.queues)+c.unsettled == 0 {
		close(c.idle)
		c.idle = nil
	}
}

// begin counts the caller's work as background work, which Close waits for. false: Close has finished, and the caller must not do it. The mutex is
// held.
func (c *Client) begin() bool {
	if c.ctx.Err() != nil {
		return false
	}
	c.background.Add(1)
	return true
}

// inBackground runs f in a goroutine that Close waits for. The mutex is held.
func (c *Client) inBackground(f func()) {
	if c.ctx.Err() == nil {
		c.background.Go(f)
	}
}

// ask calls f, which calls the backend, as background work. It leaves f behind if ctx ends first.
func (c *Client) ask(ctx context.Context, f func() error) error {
	c.mu.Lock()
	begun := c.begin()
	c.mu.Unlock()
	if !begun {
		return ErrClosed
	}
	return within(ctx, func() error {
		defer c.background.Done()
		return f()
	})
}

// within calls f, and leaves it behind if ctx ends first.
func within(ctx context.Context, f func() error) error {
	answered := make(chan error, 1)
	go func() { answered <- f() }()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, errNoAnswer, ctx.Err())
	}
}

// inTime is within with a time limit of this package, not the caller's: its error is ErrUnavailable and late, the reason.
func inTime(limit time.Duration, late string, f func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := within(ctx, f)
	if errors.Is(err, errNoAnswer) {
		return fmt.Errorf("%w: %s", ErrUnavailable, late)
	}
	return err
}

// inParallel calls f with each number below n, at most most at a time, and returns when all calls have returned.
func inParallel(n, most int, f func(int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, most) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	workers.Wait()
}
