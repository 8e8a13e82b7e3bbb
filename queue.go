package lockport

import (
	"context"
	"errors"

	"github.com/lockport/lockport/driver"
)

// queue is what a client knows of one name: who waits for it here, and the one claim that the server sees. It exists as long as there
// is either.
type queue struct {
	name    string
	claim   *claim // being made, held, or being released; nil: none
	head    *waiter
	tail    *waiter
	blocked error // why the waiters wait: ErrHeld, or the server's failure
}

// waiter is one call of Acquire or TryAcquire.
type waiter struct {
	acquisition
	try    bool
	waited bool // it was told to wait: it rides out an outage from then on

	ctx   context.Context // the caller's
	done  bool            // lock or err is set
	left  bool            // it is not in the queue any more
	ready chan struct{}   // closed when lock or err is set; nil: the caller makes the claim, and is not waiting
	lock  *Lock
	err   error

	queue      *queue
	prev, next *waiter
}

func (q *queue) push(w *waiter) {
	w.prev = q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
}

func (q *queue) remove(w *waiter) {
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// drop takes w, which leaves, out of the queue, and detaches the claim if it was made for w alone. The client's mutex is held.
func (q *queue) drop(w *waiter) {
	q.remove(w)
	w.left = true
	if q.head == nil && q.claim != nil && q.claim.state == claiming {
		q.claim.detach()
	}
}

// answer ends w's wait. The client's mutex is held.
func (q *queue) answer(w *waiter, lock *Lock, err error) {
	q.remove(w)
	w.lock, w.err, w.done = lock, err, true
	if w.ready != nil {
		close(w.ready)
	}
}

// answerAll ends with err the wait of those whom which accepts. The client's mutex is held.
func (q *queue) answerAll(err error, which func(*waiter) bool) {
	for w := q.head; w != nil; {
		next := w.next
		if which(w) {
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

// queueOf returns the queue of name, made if need be. The mutex is held.
func (c *Client) queueOf(name string) *queue {
	q := c.queues[name]
	if q == nil {
		q = &queue{name: name}
		c.queues[name] = q
	}
	return q
}

// tidy forgets q if there is nothing in it. The mutex is held.
func (c *Client) tidy(q *queue) {
	if q.claim == nil && q.head == nil && c.queues[q.name] == q {
		delete(c.queues, q.name)
		c.checkIdle()
	}
}
