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
	maxMembers   = 4096 // processes of one race, killed ones included
	memberBits   = 40   // a hold is its process's number << memberBits, plus its own
	registerFile = "register"
)

// register records who holds each name, in memory that processes can share. A new holder sees at once whether another is
// inside, without a clock or a file. It survives a process that is killed.
type register struct {
	cells [crowdNames]cell
	gone  [maxMembers]atomic.Bool // killed processes, whose holds count as over

	SoakFigures // changed atomically
}

// cell is the record of one name.
type cell struct {
	inside atomic.Int64  // the current hold; 0: none
	token  atomic.Uint64 // of the last hold
	member atomic.Int64  // the process of the last hold
}

// raise raises a figure to d.
func raise(figure *time.Duration, d time.Duration) {
	for {
		before := atomic.LoadInt64((*int64)(figure))
		if int64(d) <= before || atomic.CompareAndSwapInt64((*int64)(figure), before, int64(d)) {
			return
		}
	}
}

// holders records the holds of one process or client in the register.
type holders struct {
	*register
	member int64        // the number of the process
	last   atomic.Int64 // the number of its last hold
	locks  sync.Map     // *lockport.Lock by hold
	losses atomic.Bool  // holds may be lost without error
}

func newHolders() *holders { return &holders{register: new(register)} }

// enter records that a hold begins. A lock that was lost before its goroutine ran is no hold: others may hold the name now.
func (h *holders) enter(name int, l *lockport.Lock) (leave func() error, err error) {
	c, hold := &h.cells[name], h.member<<memberBits+h.last.Add(1)
	h.locks.Store(hold, l)
	other, before := c.inside.Swap(hold), c.token.Load()
	two := other != 0 && !h.isOver(other)
	token := token(l)
	if err := l.Err(); err != nil { // checked last: while it is valid, nobody can have come after it
		c.inside.CompareAndSwap(hold, other)
		return nil, fmt.Errorf("a lock was lost before it could be used: %w", err)
	}
	switch {
	case two:
		return nil, fmt.Errorf("two holders of name %d: process %d with token %d, and process %d with token %d, which had not released it",
			name, h.member, token, other>>memberBits, before)
	case token != 0 && token <= before:
		c.inside.CompareAndSwap(hold, 0) // the next holder is not a second one
		return nil, fmt.Errorf("P2 fencing: process %d got name %d with token %d, after token %d", h.member, name, token, before)
	}
	c.token.CompareAndSwap(before, token) // if this fails, l was lost meanwhile, and another holder came
	atomic.AddInt64(&h.Acquired, 1)
	if c.member.Swap(h.member) != h.member {
		atomic.AddInt64(&h.PassedOn, 1)
	}
	return func() error {
		defer h.locks.Delete(hold)
		if !c.inside.CompareAndSwap(hold, 0) && l.Err() == nil {
			return fmt.Errorf("process %d got in while process %d held name %d", c.inside.Load()>>memberBits, h.member, name)
		}
		return nil
	}, nil
}

// isOver reports whether a hold that has not left is over: its process was killed, or its lock is not valid.
func (h *holders) isOver(hold int64) bool {
	if member := hold >> memberBits; member != h.member {
		return h.gone[member].Load()
	}
	l, ok := h.locks.Load(hold)
	return ok && !l.(*lockport.Lock).Valid()
}

// hold holds for up to long, and then releases the lock. A loss is an error unless losses is set.
func (h *holders) hold(ctx context.Context, name int, l *lockport.Lock, long time.Duration) error {
	leave, err := h.enter(name, l)
	if err == nil {
		if long > 0 {
			<-time.After(rand.N(long))
		}
		err = l.Err()
		if broken := leave(); broken != nil {
			return broken
		}
	}
	if err != nil && !errors.Is(err, lockport.ErrLost) {
		return err
	}
	err = errors.Join(err, l.Release(ctx))
	switch {
	case errors.Is(err, lockport.ErrLost) && h.losses.Load():
		return nil
	case err != nil:
		return fmt.Errorf("a hold was lost, or its release failed, on a healthy server: %w", err)
	case l.Valid():
		return errors.New("P4 ownership: a lock is still valid after its Release returned")
	}
	return nil
}

// acquire acquires a lock, and holds it as name 0 for up to long.
func (h *holders) acquire(ctx context.Context, e *Env, c *lockport.Client, name string, long time.Duration) error {
	l, err := c.Acquire(ctx, name)
	if err != nil {
		return fmt.Errorf("an acquisition failed: %w", err)
	}
	return h.hold(e.ctx, 0, l, long)
}

// lastToken returns the driver's token of the last hold of name 0.
func (h *holders) lastToken() uint64 { return h.cells[0].token.Load() / driver.TokensPerGrant }
