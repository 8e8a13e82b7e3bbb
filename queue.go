package lockport

import (
	"container/list"
	"context"
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
	claim   *claim    // being made; if only one may be held, also held or being released; nil: none
	grants  []*claim  // held or being released, the latest last; none if only one may be held
	waiters list.List // of *waiter, first in, first out; a list, because thousands may leave at once
	blocked error     // why waiters were told to wait: ErrHeld, or a later server failure; nil: none was
}

// waiter is one call of Acquire or TryAcquire.
type waiter struct {
	acquisition
	ctx   context.Context // the caller's
	ready chan struct{}   // closed when it is done; nil: the caller makes the claim, and is not waiting
	lock  *Lock
	err   error
	place *list.Element // in its queue; nil: it was never in one
}

// done reports whether its wait has ended. The client's mutex is held.
func (w *waiter) done() bool { return w.lock != nil || w.err != nil }

// head is the first waiter; nil: there is none. The client's mutex is held.
func (q *queue) head() *waiter {
	if first := q.waiters.Front(); first != nil {
		return first.Value.(*waiter)
	}
	return nil
}

// remove takes w out of the queue, if it is in it. The client's mutex is held.
func (q *queue) remove(w *waiter) {
	if w.place != nil {
		q.waiters.Remove(w.place)
	}
}

// stopIfUnwanted removes a claim that is being made and has no waiter left. The goroutine that makes it undoes it. The client's mutex is held.
func (q *queue) stopIfUnwanted() {
	if cl := q.claim; q.head() == nil && cl != nil && cl.state == claiming {
		cl.leave()
		if cl.cancel != nil {
			cl.cancel()
		}
	}
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
	for e := q.waiters.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.try || !onlyTries {
			q.answer(w, nil, err)
		}
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
	if q.claim == nil && q.head() == nil && len(q.grants) == 0 && c.queues[q.queueKey] == q {
		delete(c.queues, q.queueKey)
		c.checkIdle()
	}
}
