package lockport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lockport/lockport/driver"
)

// Acquire implements Locker. If ctx ends first, the error matches ctx's error and the reason for the wait, if known: ErrHeld or ErrUnavailable. If the
// server is unavailable at the first attempt, Acquire fails after at most 5 s, or 15 s if another call made that attempt and gave up. Other errors:
// ErrRefused, ErrClosed, ErrInvalidName, ErrInvalidOption, errors.ErrUnsupported.
func (c *Client) Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error) {
	return c.acquire(ctx, "acquire", name, opts)
}

// TryAcquire implements Locker. It returns ErrHeld without a request if this client holds or is acquiring the name in the same mode,
// unless a permit of it may be free. Its other errors are those of Acquire.
func (c *Client) TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error) {
	return c.acquire(ctx, "try", name, opts)
}

// acquire adds hooks and an *Error to await. Thousands of goroutines may wait in it, so it should need little stack.
func (c *Client) acquire(ctx context.Context, op, name string, opts []AcquireOption) (*Lock, error) {
	var start time.Time
	if len(c.cfg.hooks) > 0 {
		ctx, start = c.reportAcquiring(ctx, name), time.Now()
	}
	lock, err := c.await(ctx, op != "acquire", name, opts)
	if err != nil {
		err = c.fail(op, name, err)
	}
	if len(c.cfg.hooks) > 0 {
		c.reportAcquired(ctx, name, start, lock, err)
	}
	return lock, err
}

// await joins the queue of name and waits for its turn.
func (c *Client) await(ctx context.Context, try bool, name string, opts []AcquireOption) (*Lock, error) {
	w, err := c.newWaiter(ctx, try, name, opts)
	if err != nil {
		return nil, err
	}
	if w.reenter {
		if outer, ok := ctx.Value(lockKey{c, name}).(*Lock); ok {
			return outer.enter(w)
		}
	}
	q, mine, err := c.enqueue(w, name)
	if err != nil {
		return nil, err
	}
	if mine != nil && mine.runHere(w) {
		return c.giveUp(q, w, cmp.Or(ctx.Err(), context.DeadlineExceeded))
	}
	if w.ready == nil {
		return w.lock, w.err
	}
	select {
	case <-w.ready:
		return w.lock, w.err
	case <-ctx.Done():
		return c.giveUp(q, w, ctx.Err())
	}
}

// newWaiter makes the waiter of one call. It checks name and options.
func (c *Client) newWaiter(ctx context.Context, try bool, name string, opts []AcquireOption) (*waiter, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	w := &waiter{ctx: ctx, acquisition: c.cfg.acquisition}
	w.try = try
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o.acquire(&w.acquisition); err != nil {
			return nil, err
		}
	}
	return w, cmp.Or(w.check(c.caps), ctx.Err())
}

// enqueue adds w to its queue of name. If the queue has no claim, it starts one, or returns one for w to make, counted as background work.
func (c *Client) enqueue(w *waiter, name string) (q *queue, mine *claim, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	q = c.queueOf(queueKey{name, w.mode})
	if n := len(q.grants); w.shared && n > 0 && q.head() == nil {
		if cl, now := q.grants[n-1], c.now(); cl.state == held && cl.mayServe(w, now) {
			cl.join(w, now)
			return q, nil, nil
		}
	}
	switch {
	case q.claim != nil && w.try && (!q.several() || q.blocked != nil):
		return nil, nil, errHeldHere
	case q.claim == nil: // nobody waits
		q.blocked = nil
	}
	w.place = q.waiters.PushBack(w)
	// A waiter that makes a claim waits for it, even if a permit is handed off to it meanwhile. So none is made here while permits are held.
	if q.claim == nil && len(q.grants) == 0 && c.caps.Prompt && w.attached == nil && c.begin() {
		return q, c.newClaim(q), nil
	}
	w.ready = make(chan struct{})
	c.claimForNext(q)
	return q, nil, nil
}

// giveUp removes w, whose context has ended with cause, from q. If w was granted a hold meanwhile, the next waiter gets its claim. If that hold has
// ended too, its end was reported, so giveUp returns it.
func (c *Client) giveUp(q *queue, w *waiter, cause error) (*Lock, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.done() {
		q.remove(w)
		q.stopIfUnwanted()
	} else if l := w.lock; l != nil {
		if l.ended.Load() != nil {
			return l, nil
		}
		l.keep = 0 // no work has begun under it
		if l.leaves(c.now()) {
			c.inBackground(l.claim.releaseUnseen)
		}
	}
	switch {
	case w.err != nil:
		return nil, fmt.Errorf("%w; before that: %w", cause, w.err)
	case q.blocked != nil:
		return nil, fmt.Errorf("%w while waiting: %w", cause, q.blocked)
	case errors.Is(cause, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: %w: no answer", cause, ErrUnavailable)
	}
	return nil, cause
}

// checkName returns an error unless name is valid.
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
