package lockport

import (
	"context"
	"slices"
)

// queueKey selects a queue.
type queueKey struct {
	name string
	mode
}

// queue is a client's state of one name in one mode: its waiters and claims. It exists while it has either. Claims are made one at a time. If several
// may be held, grants has the granted ones.
type queue struct {
	queueKey
	claim   *claim   // being made; if only one may be held, also held or being released; nil: none
	grants  []*claim // held or being released; none if only one may be held
	newest  *claim   // the latest grant, which shared holds join; nil: it has ended
	head    *waiter  // first in, first out; a list, because thousands may leave at once
	tail    *waiter
	blocked error // why waiters were told to wait: ErrHeld, or a later server failure; nil: none was
}

// waiter is one call of Acquire or TryAcquire.
type waiter struct {
	acquisition
	ctx   context.Context // the caller's
	ready chan struct{}   // closed when it is done; nil: the caller makes the claim, and is not waiting
	lock  *Lock
	err   error

	prev, next *waiter
}

// done reports whether its wait has ended. The client's mutex is held.
func (w *waiter) done() bool { return w.lock != nil || w.err != nil }

// push adds w at the end. The client's mutex is held, also in remove.
func (q *queue) push(w *waiter) {
	w.prev = q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
}

// remove takes w out of the queue, if it is in it.
func (q *queue) remove(w *waiter) {
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case q.head == w:
		q.head = w.next
	default:
		return
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// drop removes w, which leaves. The client's mutex is held.
func (q *queue) drop(w *waiter) {
	q.remove(w)
	q.stopIfUnwanted()
}

// stopIfUnwanted removes a claim that is being made and has no waiter left. The goroutine that makes it undoes it. The client's mutex is held.
func (q *queue) stopIfUnwanted() {
	if cl := q.claim; q.head == nil && cl != nil && cl.state == claiming {
		cl.leave()
		if cl.cancel != nil {
			cl.cancel()
		}
	}
}

// granted returns the claims of q that are held or being released. The client's mutex is held.
func (q *queue) granted() []*claim {
	if q.claim != nil && q.claim.state != claiming {
		return []*claim{q.claim}
	}
	return slices.Clone(q.grants)
}

// answer ends w's wait. The client's mutex is held.
func (q *queue) answer(w *waiter, lock *Lock, err error) {
	q.remove(w)
	w.lock, w.err = lock, err
	if w.ready != nil {
		close(w.ready)
	}
}

// answerAll ends the waits of all waiters with err, or only those of TryAcquire. The client's mutex is held.
func (q *queue) answerAll(err error, onlyTries bool) {
	for w := q.head; w != nil; {
		next := w.next
		if w.try || !onlyTries {
			q.answer(w, nil, err)
		}
		w = next
	}
}

// queueOf returns the queue of a name in a mode, made if necessary. The mutex is held.
func (c *Client) queueOf(key queueKey) *queue {
	q := c.queues[key]
	if q == nil {
		q = &queue{queueKey: key}
		c.queues[key] = q
	}
	return q
}

// tidy forgets q if it is empty. The mutex is held.
func (c *Client) tidy(q *queue) {
	if q.claim == nil && q.head == nil && len(q.grants) == 0 && c.queues[q.queueKey] == q {
		delete(c.queues, q.queueKey)
		c.checkIdle()
	}
}
