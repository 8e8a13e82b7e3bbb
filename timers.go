package lockport

import (
	"time"
)

// timers calls claims when something is due: a renewal, the end of their validity, of MaxHold or of MinHold. One timer
// and a heap serve all claims of a client, so that a held lock costs no goroutine. Guarded by the client's mutex.
type timers struct {
	heap  []*claim // by due, the earliest first; a claim's index is its place plus 1, 0: not in it
	timer *time.Timer
	armed time.Duration // when timer fires; meaningless while it does not run
	runs  bool
}

// schedule tells the timers when the claim is next to be looked at. The mutex is held.
func (cl *claim) schedule() {
	due := time.Duration(cl.deadline.Load())
	if !cl.renewing {
		due = min(due, cl.renewAt)
	}
	switch {
	case cl.hold != nil:
		due = min(due, cl.hold.limit)
	case cl.keepUntil > 0:
		due = min(due, cl.keepUntil)
	}
	t := &cl.client.timers
	if due == never {
		t.remove(cl)
		return
	}
	cl.due = due
	if cl.index == 0 {
		t.heap = append(t.heap, cl)
		cl.index = int32(len(t.heap))
	}
	t.fix(int(cl.index) - 1)
	cl.client.arm()
}

// arm makes the timer fire when the first claim is due. The mutex is held.
func (c *Client) arm() {
	t := &c.timers
	if len(t.heap) == 0 || t.runs && t.armed <= t.heap[0].due {
		return // firing too early does no harm
	}
	t.armed = t.heap[0].due
	t.runs = true
	d := max(t.armed-c.now(), 0)
	if t.timer == nil {
		t.timer = time.AfterFunc(d, c.tick)
	} else {
		t.timer.Reset(d)
	}
}

// tick looks at the claims that are due.
func (c *Client) tick() {
	c.mu.Lock()
	defer c.unlock()
	t := &c.timers
	t.runs = false
	now := c.now()
	var due []*claim // to be renewed
	for len(t.heap) > 0 && t.heap[0].due <= now {
		cl := t.heap[0]
		t.remove(cl)
		switch {
		case cl.expire(now):
			continue
		case cl.hold == nil && now >= cl.keepUntil:
			if cl.next(now) {
				c.inBackground(cl.releaseUnseen)
			}
			continue
		case now >= cl.renewAt && !cl.renewing:
			cl.renewing = true
			due = append(due, cl)
		}
		cl.schedule()
	}
	c.startRenewals(due)
	c.arm()
}

// remove takes cl out, if it is in.
func (t *timers) remove(cl *claim) {
	if cl.index == 0 {
		return
	}
	i, last := int(cl.index)-1, len(t.heap)-1
	cl.index = 0
	moved := t.heap[last]
	t.heap[last] = nil
	t.heap = t.heap[:last]
	if i < last {
		t.heap[i] = moved
		moved.index = int32(i + 1)
		t.fix(i)
	}
}

// fix restores the order of the heap after the claim at i has changed.
func (t *timers) fix(i int) {
	h := t.heap
	swap := func(a, b int) {
		h[a], h[b] = h[b], h[a]
		h[a].index, h[b].index = int32(a+1), int32(b+1)
	}
	for i > 0 && h[i].due < h[(i-1)/2].due {
		swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].due < h[least].due {
				least = child
			}
		}
		if least == i {
			return
		}
		swap(i, least)
		i = least
	}
}
