package redisclaims

import (
	"math/bits"
	"time"

	"github.com/lockport/lockport/driver"
)

// Claim is what a Registry knows of one owner id. A backend's claim embeds it. Guarded by the registry.
type Claim struct {
	Req driver.Request // of the latest request; the registry alone writes it, and name, owner and TTL never change

	asked  uint32 // how often it has
	asking bool   // a request whose outcome is not known yet, or never will be
	queued bool   // a server may have it in its queue
	hinted bool   // told to try, while nobody was registered for that
	held   bool
	wake   func() // nil: nobody is registered
	called uint64 // the servers that have told it that its turn has come, since it last asked
	broken uint64 // those that have told it that it was broken by force
}

// Base implements Member.
func (c *Claim) Base() *Claim { return c }

// Member is a backend's claim.
type Member interface {
	// Base is the embedded Claim.
	Base() *Claim
	// Broken is called when so many servers as matter have said that the claim, which is held, was broken by force.
	Broken()
}

// patienceOfCalled is how long a claim that some servers have called waits for the others before it tries all the same: one of them may be
// away, or still on its way to release.
const patienceOfCalled = 10 * time.Millisecond

// turn lets the claim try: it returns what is to be called for that, outside the mutex, if anybody is registered.
func (c *Claim) turn() (wake func()) {
	c.hinted = c.hinted || c.wake == nil
	return c.wake
}

// toldOf notes a word of a server about m and returns what is to be called, outside the mutex, if anything.
func (r *Registry) toldOf(m Member, word byte, server int) func() {
	c := m.Base()
	switch word {
	case 'w':
		first, asked := c.called == 0, c.asked
		c.called |= 1 << server
		if bits.OnesCount64(c.called) >= r.o.Quorum {
			return c.turn()
		}
		if first {
			time.AfterFunc(patienceOfCalled, func() { r.calledBySome(c, asked) })
		}
	case 'c':
		return c.Req.Contended
	case 'l':
		c.broken |= 1 << server
		if c.held && bits.OnesCount64(c.broken) >= r.o.Quorum {
			return m.Broken
		}
	}
	return nil
}

// calledBySome lets a claim try that fewer servers than the quorum have called, unless it has tried since it had asked so often.
func (r *Registry) calledBySome(c *Claim, asked uint32) {
	r.mu.Lock()
	var wake func()
	if c.asked == asked && !c.held {
		wake = c.turn()
	}
	r.mu.Unlock()
	if wake != nil {
		wake()
	}
}
