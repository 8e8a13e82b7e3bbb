package redisclaims

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/lockport/lockport/driver"
)

// Claim is a Registry's state of one owner id. A backend's claim embeds it. Guarded by the registry.
type Claim struct {
	Req driver.Request // the latest; only the registry writes it, and Name, Owner and TTL never change

	asked  uint32 // number of requests
	asking bool   // the outcome of a request is not known yet, or never will be
	queued bool   // a server may have it in its queue
	hinted bool   // notified while no wake was registered
	held   bool
	wake   func() // nil: not registered
	called uint64 // bits of the servers that have called it since its last request: its turn has come
	broken uint64 // bits of the servers that reported it broken by force
}

// Base implements Member.
func (c *Claim) Base() *Claim { return c }

// TTL is the claim's TTL in milliseconds, rounded up.
func (c *Claim) TTL() int64 { return int64((c.Req.TTL + time.Millisecond - 1) / time.Millisecond) }

// Member is a backend's claim.
type Member interface {
	// Base returns the embedded Claim.
	Base() *Claim
	// Queue is the key of the queue in which clients wait for what the claim holds.
	Queue() string
}

// quorumWait is how long a claim called by fewer servers than the quorum waits for the others before it tries anyway. They may be down,
// or not have received the release yet.
const quorumWait = 10 * time.Millisecond

// turnWait is how long a claim that is next after one whose turn has come waits before it tries: the turn, which the scripts measure, and a little
// more. The one ahead may be dead.
const turnWait = 260 * time.Millisecond

// hint returns wake, to be called without the mutex. If none is registered, it returns nil and Notify wakes at once.
func (c *Claim) hint() (wake func()) {
	c.hinted = c.hinted || c.wake == nil
	return c.wake
}

// act records a server's word about m. It returns the function to call without the mutex, if any.
func (r *Registry[M]) act(m M, word byte, server int) func() {
	c := m.Base()
	switch word {
	case 'w':
		first, asked := c.called == 0, c.asked
		c.called |= 1 << server
		if bits.OnesCount64(c.called) >= r.o.Quorum {
			return c.hint()
		}
		if first {
			time.AfterFunc(quorumWait, func() { r.wakeUnlessAsked(c, asked) })
		}
	case 'n':
		asked := c.asked
		time.AfterFunc(turnWait, func() { r.wakeUnlessAsked(c, asked) })
	case 'c':
		return c.Req.Contended
	case 'l':
		c.broken |= 1 << server
		return r.breakHeld(m)
	}
	return nil
}

// breakHeld retires m if it is held and a quorum of servers reported it broken, perhaps before its grant was known. It returns the function to call
// without the mutex, if any. The mutex is held.
func (r *Registry[M]) breakHeld(m M) func() {
	c := m.Base()
	if !c.held || bits.OnesCount64(c.broken) < r.o.Quorum {
		return nil
	}
	r.retire(m)
	lost := c.Req.Lost
	if lost == nil {
		return nil
	}
	return func() { lost(fmt.Errorf("%w: it was broken by force", driver.ErrLost)) }
}

// wakeUnlessAsked wakes a claim, unless it has sent another request since it had sent asked.
func (r *Registry[M]) wakeUnlessAsked(c *Claim, asked uint32) {
	r.mu.Lock()
	var wake func()
	if c.asked == asked && !c.held {
		wake = c.hint()
	}
	r.mu.Unlock()
	if wake != nil {
		wake()
	}
}
