package lockport

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// Acquire implements Locker. If ctx ends first, the error matches ctx's and, so that one can tell why it took so long, ErrHeld or
// ErrUnavailable. A server that is unavailable at once, before anything was waited for, is an error at once. Other errors: ErrRefused,
// ErrClosed, ErrInvalidName, ErrInvalidOption, errors.ErrUnsupported.
func (c *Client) Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error) {
	return c.acquire(ctx, "acquire", name, opts)
}

// TryAcquire implements Locker. ErrHeld comes without a request if this client has, or is claiming, the name. Its other errors are those of
// Acquire.
func (c *Client) TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error) {
	return c.acquire(ctx, "try", name, opts)
}

// acquire puts the hooks and the error's frame around await.
func (c *Client) acquire(ctx context.Context, op, name string, opts []AcquireOption) (*Lock, error) {
	hooks := &c.cfg.hooks
	var start time.Time
	if hooks.AcquireStart != nil {
		ctx = hooks.AcquireStart(ctx, name)
	}
	if hooks.AcquireDone != nil {
		start = clock.Now()
	}
	lock, err := c.await(ctx, op == "try", name, opts)
	if err != nil {
		err = c.fail(op, name, err)
	}
	if hooks.AcquireDone != nil {
		e := Acquired{Name: name, Wait: clock.Now().Sub(start), Err: err}
		if lock != nil {
			e.Token, e.HandedOff = lock.token, lock.handedOff
		}
		hooks.AcquireDone(ctx, e)
	}
	return lock, err
}

// await takes its place in the queue of name and waits for its turn.
func (c *Client) await(ctx context.Context, try bool, name string, opts []AcquireOption) (*Lock, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	w := &waiter{acquisition: c.cfg.acquisition, try: try}
	if err := w.configure(opts, c.caps); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q, mine, err := c.enqueue(w, name)
	if err != nil {
		return nil, err
	}
	if mine != nil {
		func() {
			defer c.background.Done()
			mine.runHere(ctx, w)
		}()
		if c.answered(w) {
			return w.lock, w.err
		}
	}
	select {
	case <-w.ready:
		return w.lock, w.err
	case <-ctx.Done():
		return nil, c.leave(q, w, ctx.Err())
	}
}

// answered reports that w need not wait, or prepares for it.
func (c *Client) answered(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.done {
		w.ready = make(chan struct{})
	}
	return w.done
}

// enqueue puts w into the queue of name, and starts a claim if there is none, or returns it for w to make, counted as work in the
// background.
func (c *Client) enqueue(w *waiter, name string) (q *queue, mine *claim, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	q = c.queueOf(name)
	if q.claim != nil {
		if w.try {
			return nil, nil, fmt.Errorf("%w: this process has it or is taking it", ErrHeld)
		}
		w.waited = q.claim.state != claiming || q.claim.foundHeld
		if w.waited && q.blocked == nil {
			q.blocked = ErrHeld
		}
	}
	q.push(w)
	switch {
	case q.claim != nil:
	case c.caps.Prompt && c.begin():
		mine = c.newClaim(q)
		return q, mine, nil
	default:
		c.startClaim(q)
	}
	w.ready = make(chan struct{})
	return q, mine, nil
}

// leave takes w, whose context has ended with cause, out of its queue. What it was given meanwhile goes on to the next.
func (c *Client) leave(q *queue, w *waiter, cause error) error {
	c.mu.Lock()
	blocked := q.blocked
	if !w.done {
		if !w.left {
			q.drop(w)
		}
		c.tidy(q)
	} else if w.lock != nil {
		if ended := w.lock.giveUp(); ended != nil {
			c.inBackground(func() { _ = ended.release(c.ctx) })
		}
	}
	c.unlock()
	switch {
	case w.done && w.err != nil:
		return fmt.Errorf("%w; before that: %w", cause, w.err)
	case blocked != nil:
		return fmt.Errorf("%w while waiting: %w", cause, blocked)
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w: no answer yet", cause, ErrUnavailable)
	}
	return cause
}

// configure applies the options of one acquisition.
func (w *waiter) configure(opts []AcquireOption, caps driver.Capabilities) error {
	if len(opts) == 0 {
		return nil // New has checked the defaults
	}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o.acquire(&w.acquisition); err != nil {
			return err
		}
	}
	return w.check(caps)
}

// checkName holds the rule for names.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty; give it 1 to %d bytes", ErrInvalidName, driver.MaxNameLength)
	case len(name) > driver.MaxNameLength:
		return fmt.Errorf("%w: it has %d bytes; at most %d are allowed", ErrInvalidName, len(name), driver.MaxNameLength)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: it is not valid UTF-8", ErrInvalidName)
	}
	return nil
}
