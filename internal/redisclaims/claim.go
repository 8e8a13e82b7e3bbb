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
	missed bool   // a wake-up while no wake was registered
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
}

// quorumWait is how long a claim called by fewer servers than the quorum waits for the others before it tries anyway. They may be down,
// or not have received the release yet.
const quorumWait = 10 * time.Millisecond

// turnWait is how long a claim that is next after one whose turn has come waits before it tries: the turn, which the scripts measure, and a little
// more. The one ahead may be dead.
const turnWait = 260 * time.Millisecond

// wakeUp wakes the claim's waiter. If none is registered, Notify does. The mutex is held.
func (c *Claim) wakeUp() {
	if c.wake == nil {
		c.missed = true
		return
	}
	c.wake()
}

// handle does what a message from a server says: a word, and the owner of a claim.
func (r *Registry[M]) handle(server int, message string) {
	if message == "" { // as Check and listen send it
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m, known := r.members[message[1:]]
	if !known {
		return
	}
	switch c := m.Base(); message[0] {
	case 'w':
		c.called |= 1 << server
		if bits.OnesCount64(c.called) >= r.o.Quorum {
			c.wakeUp()
		} else {
			r.wakeAfter(quorumWait, c)
		}
	case 'n':
		r.wakeAfter(turnWait, c)
	case 'c':
		if c.Req.Contended != nil {
			c.Req.Contended()
		}
	case 'l':
		c.broken |= 1 << server
		r.breakHeld(c)
	}
}

// breakHeld ends c if it is held and a quorum of servers reported it broken, perhaps before its grant was known. The mutex is held.
func (r *Registry[M]) breakHeld(c *Claim) {
	if !c.held || bits.OnesCount64(c.broken) < r.o.Quorum {
		return
	}
	delete(r.members, c.Req.Owner)
	if c.Req.Lost != nil {
		c.Req.Lost(fmt.Errorf("%w: it was broken by force", driver.ErrLost))
	}
}

// wakeAfter wakes c after d, unless it has sent another request by then. The mutex is held.
func (r *Registry[M]) wakeAfter(d time.Duration, c *Claim) {
	asked := c.asked
	time.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.asked == asked {
			c.wakeUp()
		}
	})
}
