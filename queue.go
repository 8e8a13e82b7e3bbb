package lockport

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/lockport/lockport/driver"
)

// queue is what a client knows of one name in one mode: who waits for it here, and the claims that the server sees. It exists as long as there
// is either. Claims are made one at a time. Where several may be held, those are beside it.
type queue struct {
	name string
	mode
	also    *queue              // of the same name in another mode; nil: none
	claim   *claim              // being made; where one alone may be held, also held or being released; nil: none
	beside  map[*claim]struct{} // held or being released; nil where one alone may be held
	newest  *claim              // of those beside, which shared holds join; nil: none
	head    *waiter
	tail    *waiter
	blocked error // why those who wait were told to: ErrHeld, or since then the server's failure; nil: nobody was
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

// done says that its wait has ended. The client's mutex is held.
func (w *waiter) done() bool { return w.lock != nil || w.err != nil }

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

// drop takes w, which leaves, out of the queue. The client's mutex is held.
func (q *queue) drop(w *waiter) {
	q.remove(w)
	q.stopIfUnwanted()
}

// stopIfUnwanted detaches a claim that is being made and that nobody waits for any more. The client's mutex is held.
func (q *queue) stopIfUnwanted() {
	if q.head == nil && q.claim != nil && q.claim.state == claiming {
		q.claim.detach()
	}
}

// granted returns the claims of q that are held or being released. The client's mutex is held.
func (q *queue) granted() []*claim {
	if q.claim != nil && q.claim.state != claiming {
		return []*claim{q.claim}
	}
	return slices.Collect(maps.Keys(q.beside))
}

// answer ends w's wait. The client's mutex is held.
func (q *queue) answer(w *waiter, lock *Lock, err error) {
	q.remove(w)
	w.lock, w.err = lock, err
	if w.ready != nil {
		close(w.ready)
	}
}

// answerAll ends with err the wait of those whom which accepts; nil accepts all. The client's mutex is held.
func (q *queue) answerAll(err error, which func(*waiter) bool) {
	for w := q.head; w != nil; {
		next := w.next
		if which == nil || which(w) {
			q.answer(w, nil, err)
		}
		w = next
	}
}

// heldHere is err, which is ErrHeld, with what is known of the holder, who is in this process or keeps it waiting. The mutex is held.
func (q *queue) heldHere(err error) error {
	var elsewhere *HeldError
	switch cl := q.claim; {
	case cl != nil && cl.state == held:
		return newHeldError(driver.Status{Name: q.name, Owner: cl.req.Owner, Token: cl.token}, err)
	case errors.As(q.blocked, &elsewhere):
		return &HeldError{Status: elsewhere.Status, err: err}
	}
	return err
}

// queueOf returns the queue of name in mode m, made if need be, and the first of those of the name. The mutex is held.
func (c *Client) queueOf(name string, m mode) (q, first *queue) {
	first = c.queues[name]
	for q = first; q != nil; q = q.also {
		if q.mode == m {
			return q, first
		}
	}
	q = &queue{name: name, mode: m, also: first}
	if m.several() {
		q.beside = make(map[*claim]struct{})
	}
	c.queues[name] = q
	return q, q
}

// crowdsOut tells the claims of the same name in the other mode, with which those of q do not agree, that somebody waits. first is the first queue of the
// name. The mutex is held.
func (q *queue) crowdsOut(first *queue) {
	for o := first; o != nil; o = o.also {
		if o.shared == q.shared || o.permits+q.permits > 0 {
			continue
		}
		if o.claim != nil {
			o.claim.contended = true
		}
		for cl := range o.beside {
			cl.contended = true
		}
	}
}

// tidy forgets q if there is nothing in it. The mutex is held.
func (c *Client) tidy(q *queue) {
	if q.claim != nil || q.head != nil || len(q.beside) > 0 {
		return
	}
	if left := c.queues[q.name].without(q); left != nil {
		c.queues[q.name] = left
	} else {
		delete(c.queues, q.name)
	}
	c.checkIdle()
}

// without returns q and those that follow it, save one.
func (q *queue) without(one *queue) *queue {
	switch q {
	case nil:
		return nil
	case one:
		return one.also
	}
	q.also = q.also.without(one)
	return q
}
