package lockport

import (
	"container/heap"
	"time"
)

// timers acts on claims when something is due: a renewal, or the end of their validity, MaxHold or MinHold. One timer and a heap serve all claims of
// a client, so a held lock costs no goroutine. Guarded by the client's mutex.
type timers struct {
	heap  dueFirst
	timer *time.Timer
	armed time.Duration // when timer fires; 0: it does not run
}

// schedule tells the timers when the claim is next due. The mutex is held.
func (cl *claim) schedule() {
	due := time.Duration(cl.deadline.Load())
	if cl.renewal == nil {
		due = min(due, cl.renewAt)
	}
	if len(cl.holds) > 0 {
		due = min(due, cl.limit)
	} else {
		due = min(due, cl.keepUntil)
	}
	t := &cl.client.timers
	if cl.due = due; cl.index == 0 {
		heap.Push(&t.heap, cl)
	} else {
		heap.Fix(&t.heap, int(cl.index)-1)
	}
	cl.client.arm()
}

// remove removes cl from the heap, if present.
func (t *timers) remove(cl *claim) {
	if cl.index > 0 {
		heap.Remove(&t.heap, int(cl.index)-1)
	}
}

// maxSleep bounds the timer: Go's timers stand still while the machine is suspended.
const maxSleep = 250 * time.Millisecond

// arm makes the timer fire when the first claim is due, or sooner. The mutex is held.
func (c *Client) arm() {
	t := &c.timers
	if len(t.heap) == 0 || t.heap[0].due == never || t.armed > 0 && t.armed <= t.heap[0].due {
		return // firing too early does no harm
	}
	t.armed = t.heap[0].due
	d := min(max(t.armed-c.now(), 0), maxSleep)
	if t.timer == nil {
		t.timer = time.AfterFunc(d, c.tick)
	} else {
		t.timer.Reset(d)
	}
}

// tick handles the claims that are due.
func (c *Client) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.timers
	t.armed = 0
	now := c.now()
	var due []*claim // to be renewed
	for len(t.heap) > 0 && t.heap[0].due <= now {
		cl := t.heap[0]
		switch {
		case cl.expire(now):
			continue
		case len(cl.holds) == 0 && now >= cl.keepUntil:
			if cl.next(now) {
				c.inBackground(cl.releaseUnseen)
			}
			continue
		case now >= cl.renewAt && cl.renewal == nil:
			cl.renewal = make(chan struct{})
			due = append(due, cl)
		}
		cl.schedule()
	}
	c.startRenewals(due)
	c.arm()
}

// dueFirst is a heap.Interface of claims, the earliest due first. A claim's index is its place plus 1; 0: not in the heap.
type dueFirst []*claim

func (h dueFirst) Len() int           { return len(h) }
func (h dueFirst) Less(i, j int) bool { return h[i].due < h[j].due }

func (h dueFirst) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i+1), int32(j+1)
}

func (h *dueFirst) Push(x any) {
	*h = append(*h, x.(*claim))
	x.(*claim).index = int32(len(*h))
}

func (h *dueFirst) Pop() any {
	last := len(*h) - 1
	cl := (*h)[last]
	(*h)[last], cl.index = nil, 0
	*h = (*h)[:last]
	return cl
}
