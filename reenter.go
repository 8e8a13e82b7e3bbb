package lockport

import (
	"context"
	"errors"
	"fmt"
)

// lockKey is the context key of a hold.
type lockKey struct {
	client *Client
	name   string
}

// WithLock returns a context that carries lock, for an Acquire with Reenter. Contexts of Lock.Context, and so of Do, carry their lock already.
func WithLock(ctx context.Context, lock *Lock) context.Context {
	return context.WithValue(ctx, lockKey{lock.claim.client, lock.Name()}, lock)
}

// Reenter lets Acquire and TryAcquire return an inner hold if the context carries a hold of the same name and Client: see WithLock. An inner hold has
// the outer hold's token and sends no request. It ends with the outer hold: if that is released first, the inner hold is lost. TTL, MinHold and
// MaxHold are the outer hold's. A reader's hold or a permit can be re-entered only in the same mode. If the outer hold has ended, Acquire fails with
// the reason. Without a hold in the context, Reenter changes nothing.
//
// Without Reenter, a second Acquire of a name waits for the first one's release, even in the same goroutine.
func Reenter() AcquireOption {
	return acquireOption(func(a *acquisition) error { a.reenter = true; return nil })
}

// errOuterReleased is why an inner hold is lost.
var errOuterReleased = errors.New("the outer hold was released before this inner one")

// enter makes an inner hold of l for w.
func (l *Lock) enter(w *waiter) (*Lock, error) {
	if have := l.claim.queue.mode; w.mode != have && (have.several() || w.permits > 0) {
		return nil, fmt.Errorf("%w: Reenter in a mode that the outer hold does not cover", ErrInvalidOption)
	}
	c := l.claim.client
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if e := l.endAt(now); e != nil {
		return nil, fmt.Errorf("the outer hold has ended: %w", e.err)
	}
	inner := &Lock{claim: l.claim, outer: l, token: l.token, acquired: now, limit: l.limit}
	inner.observe(w)
	l.watch(inner, inner.endWith)
	return inner, nil
}

// endWith ends the inner hold l, whose outer hold has ended with e. The mutex is held.
func (l *Lock) endWith(e *end) {
	if !e.lost && e != closed {
		e = &end{err: fmt.Errorf("%w: %w", ErrLost, errOuterReleased), lost: true}
	}
	l.end(e)
}
