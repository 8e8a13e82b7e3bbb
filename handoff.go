package lockport

import (
	"time"

	"github.com/lockport/lockport/driver"
)

// Bounds of the hand-off inside a process: how many holds a claim may serve after its first, and for how long. Waiting clients that
// poll cannot be seen, so a claim is really released ten times a second at the least, which leaves them moments as long as a request.
const (
	maxHandOffs          = 1000 // below driver.TokensPerGrant
	maxContendedHandOffs = 16
	maxHandOffTime       = 100 * time.Millisecond
)

// next decides what follows the end of a hold: nothing yet, since the claim is kept for MinHold; a hand-off to the next
// waiter; or the end of the claim, which the caller must then release, as true says. The mutex is held.
func (cl *claim) next(now time.Duration) (release bool) {
	if cl.hold = nil; now < cl.keepUntil {
		cl.schedule()
		return false
	}
	if cl.mayHandOff(now) {
		cl.handOffs++
		if cl.contended {
			cl.since++
		}
		cl.give(now)
		return false
	}
	cl.state = ending
	cl.client.timers.remove(cl)
	return true
}

func (cl *claim) mayHandOff(now time.Duration) bool {
	w := cl.queue.head
	switch {
	case w == nil, w.ttl != cl.req.TTL, cl.client.cfg.noHandOff:
		return false
	case cl.handOffs >= maxHandOffs, cl.contended && cl.since >= maxContendedHandOffs, now-cl.grantedAt > maxHandOffTime:
		return false
	}
	deadline := time.Duration(cl.deadline.Load())
	return deadline == never || deadline-now >= cl.req.TTL/3
}

// give makes a hold of the claim for the first waiter. The mutex is held.
func (cl *claim) give(now time.Duration) {
	w := cl.queue.head
	l := &cl.first
	if cl.handOffs > 0 {
		l = new(Lock)
	}
	l.claim, l.acquired, l.limit = cl, now, never
	if cl.token > 0 {
		l.token = Token(cl.token*driver.TokensPerGrant + uint64(cl.handOffs))
	}
	if w.maxHold > 0 {
		l.limit = after(now, w.maxHold)
	}
	cl.keepUntil = 0
	if w.minHold > 0 {
		cl.keepUntil = after(now, w.minHold)
	}
	cl.hold = l
	cl.queue.answer(w, l, nil)
	cl.schedule()
}

// after is the instant d after now; at most never.
func after(now, d time.Duration) time.Duration {
	if d > never-now {
		return never
	}
	return now + d
}
