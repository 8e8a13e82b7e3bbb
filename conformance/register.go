package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// Sizes of a register.
const (
	crowdNames   = 128
	maxMembers   = 4096 // processes of one crowd, those among them that were killed
	memberBits   = 40   // a hold's number is below 1<<memberBits, and its process's number above
	registerFile = "register"
)

// register is what locks protect, and what their holders have done: memory that processes can share, so that whoever comes in sees at once who is
// inside, without a clock or a file between them. It outlives a process that is killed.
type register struct {
	cells [crowdNames]cell
	gone  [maxMembers]atomic.Bool // processes that were killed: what they had is nobody's

	acquired, handedOff, passedOn, gaveUp, inVain, tooSlow atomic.Int64
	longest, latest                                        atomic.Int64 // wait; return after the end of a context
}

// cell is what one name protects.
type cell struct {
	inside atomic.Int64  // the hold that is inside; 0: none
	token  atomic.Uint64 // of the last hold
	member atomic.Int64  // the process that had it last
}

// most raises a figure to d.
func most(figure *atomic.Int64, d time.Duration) {
	for {
		before := figure.Load()
		if int64(d) <= before || figure.CompareAndSwap(before, int64(d)) {
			return
		}
	}
}

// holders are the holds of one process or client. Every hold is entered here, wherever goroutines or processes contend.
type holders struct {
	*register
	member  int64             // the number of the process
	last    atomic.Int64      // the number of its last hold
	locks   sync.Map          // by the numbers of their holds
	losses  atomic.Bool       // holds may be lost: that is no error, and none are counted
	counted [crowdNames]int64 // how often each name was held: only the lock guards it, as the race detector sees
}

func newHolders() *holders { return &holders{register: new(register)} }

// enter notes that a hold of a name begins. A lock that is lost by the time that its goroutine gets to run is no hold: others may have had the name since.
func (h *holders) enter(name int, l *lockport.Lock) (leave func() error, err error) {
	c, hold := &h.cells[name], h.member<<memberBits+h.last.Add(1)
	h.locks.Store(hold, l)
	other, before := c.inside.Swap(hold), c.token.Load()
	two := other != 0 && !h.isOver(other)
	token := token(l)
	if err := l.Err(); err != nil { // looked at after the others were seen: as long as it is valid, there is nobody after it
		c.inside.CompareAndSwap(hold, other)
		return nil, fmt.Errorf("a lock was lost before it could be used: %w", err)
	}
	switch {
	case two:
		return nil, fmt.Errorf("two hold name %d: process %d with token %d, and process %d, which had token %d and had not released it",
			name, h.member, token, other>>memberBits, before)
	case token != 0 && token <= before:
		return nil, fmt.Errorf("P2 fencing: process %d got name %d with token %d, after token %d was given", h.member, name, token, before)
	}
	c.token.CompareAndSwap(before, token) // where that fails it was lost since, and somebody else came
	h.acquired.Add(1)
	if c.member.Swap(h.member) != h.member {
		h.passedOn.Add(1)
	}
	if !h.losses.Load() {
		h.counted[name]++
	}
	return func() error {
		defer h.locks.Delete(hold)
		if !c.inside.CompareAndSwap(hold, 0) && l.Err() == nil {
			return fmt.Errorf("process %d came in while process %d held name %d", c.inside.Load()>>memberBits, h.member, name)
		}
		return nil
	}, nil
}

// isOver says whether a hold that has not left was ended by something else.
func (h *holders) isOver(hold int64) bool {
	if member := hold >> memberBits; member != h.member {
		return h.gone[member].Load()
	}
	l, ok := h.locks.Load(hold)
	return ok && !l.(*lockport.Lock).Valid()
}

// stay is inside for up to so long.
func (h *holders) stay(name int, l *lockport.Lock, long time.Duration) error {
	leave, err := h.enter(name, l)
	if err != nil {
		return err
	}
	if long > 0 {
		<-time.After(rand.N(long))
	}
	lost := l.Err()
	if err := leave(); err != nil || lost == nil {
		return err
	}
	return fmt.Errorf("a hold was lost on a server that is well: %w", lost)
}

// hold is stay, and then releases the lock. Holds may be lost where that is said.
func (h *holders) hold(ctx context.Context, name int, l *lockport.Lock, long time.Duration) error {
	err := h.stay(name, l, long)
	if err != nil && !errors.Is(err, lockport.ErrLost) {
		return err
	}
	err = errors.Join(err, l.Release(ctx))
	switch {
	case errors.Is(err, lockport.ErrLost) && h.losses.Load():
		return nil
	case err != nil:
		return fmt.Errorf("a hold was lost, or its release failed, on a server that is well: %w", err)
	case l.Valid():
		return errors.New("P4 ownership: a lock is valid still after its Release has returned")
	}
	return nil
}

// acquire acquires a lock, and holds it as name 0 for up to so long.
func (h *holders) acquire(ctx context.Context, e *Env, c *lockport.Client, name string, long time.Duration) error {
	l, err := c.Acquire(ctx, name)
	if err != nil {
		return fmt.Errorf("an acquisition failed: %w", err)
	}
	return h.hold(e.ctx, 0, l, long)
}

// lastToken is the driver's token of the last hold of name 0.
func (h *holders) lastToken() uint64 { return h.cells[0].token.Load() / driver.TokensPerGrant }
