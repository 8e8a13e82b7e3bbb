package lockport

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

// Bounds of the hand-off inside a process: how many holds a claim may serve after its first, and for how long. The client cannot see that
// others poll. So it releases a claim at the server after 100 ms of hand-offs, which leaves them moments as long as a request.
const (
	maxHandOffs          = 1000 // below driver.TokensPerGrant
	maxContendedHandOffs = 16
	maxHandOffTime       = 100 * time.Millisecond
)

// next decides what follows the end of a hold. The claim is kept for MinHold, handed off to the next waiter, or over. true: it is over, and the
// caller must release it. The mutex is held.
func (cl *claim) next(now time.Duration) (release bool) {
	if len(cl.holds) > 0 {
		return false
	}
	if now < cl.keepUntil {
		cl.schedule()
		return false
	}
	if w := cl.queue.head(); w != nil && !cl.queue.shared && !cl.detaching && cl.handOffs < maxHandOffs && cl.mayServe(w, now) {
		cl.handOffs++
		cl.join(w, now)
		cl.queue.stopIfUnwanted()
		return false
	}
	cl.state = ending
	cl.client.timers.remove(cl)
	return true
}

// mayServe reports whether the held claim may serve w next. The mutex is held.
func (cl *claim) mayServe(w *waiter, now time.Duration) bool {
	// If the backend reports waiting clients, maxContendedHandOffs protects those from readers. The TTL protects unreported ones, such as foreign clients.
	most := maxHandOffTime
	if cl.queue.shared && cl.client.caps.Contended {
		most = cl.req.TTL
	}
	switch {
	case w.ttl != cl.req.TTL, cl.client.cfg.noHandOff:
		return false
	case cl.isContended() && cl.since >= maxContendedHandOffs, now-cl.grantedAt > most:
		return false
	}
	return time.Duration(cl.deadline.Load())-now >= cl.req.TTL/3
}

// isContended reports whether another client is known to wait for the name, or a caller of this client in the other mode: readers wait for a writer,
// and writers for readers. Permits are independent of both. The mutex is held.
func (cl *claim) isContended() bool {
	q := cl.queue
	other := cl.client.queues[queueKey{q.name, mode{shared: !q.shared}}]
	return cl.contended || q.permits == 0 && other != nil && other.head() != nil
}

// join gives w, which came after the grant, a hold of the claim. The mutex is held.
func (cl *claim) join(w *waiter, now time.Duration) {
	if cl.isContended() {
		cl.since++
	}
	cl.give(w, now)
}

// admit gives holds of a shared claim to the waiters with its TTL, unless hand-off is off. The mutex is held.
func (cl *claim) admit(now time.Duration) {
	if !cl.queue.shared || cl.client.cfg.noHandOff {
		return
	}
	for e := cl.queue.waiters.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.ttl == cl.req.TTL {
			cl.give(w, now)
		}
	}
}

// give makes a hold of the claim for w. The mutex is held.
func (cl *claim) give(w *waiter, now time.Duration) {
	l := &cl.first
	if l.claim != nil {
		l = new(Lock)
	}
	l.claim, l.acquired, l.limit, l.keep = cl, now, after(now, cmp.Or(w.maxHold, never)), after(now, w.minHold)
	l.observe(w)
	if cl.token > 0 {
		l.token = Token(cl.token*driver.TokensPerGrant + uint64(cl.handOffs))
	}
	if cl.limit = min(cl.limit, l.limit); len(cl.holds) == 0 {
		cl.limit = l.limit
	}
	cl.holds = append(cl.holds, l)
	cl.queue.answer(w, l, nil)
	cl.schedule()
}

// remove takes l out of the claim's holds. The mutex is held.
func (cl *claim) remove(l *Lock) {
	if i := slices.Index(cl.holds, l); i >= 0 {
		cl.holds = slices.Delete(cl.holds, i, i+1)
		cl.keepUntil = max(cl.keepUntil, l.keep)
	}
}

// after is the instant d after now, at most never.
func after(now, d time.Duration) time.Duration {
	if d > never-now {
		return never
	}
	return now + d
}
