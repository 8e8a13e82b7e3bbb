package conformance

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Sizes of a register.
const (
	crowdNames   = 128
	maxMembers   = 4096 // processes of one crowd, those among them that were killed
	memberBits   = 40   // a hold's number is below 1<<memberBits, and its process's number above
	registerFile = "register"
)

// register is what the locks of a crowd protect, and what its processes have done: memory that they all share, so that whoever comes in sees at once who is
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

// enter notes that a hold, whose process is member, begins.
func (r *register) enter(name, member int, hold int64, token uint64) error {
	c := &r.cells[name]
	if !c.inside.CompareAndSwap(0, hold) {
		other := c.inside.Load()
		dead := other != 0 && r.gone[other>>memberBits].Load()
		if !dead || !c.inside.CompareAndSwap(other, hold) {
			return fmt.Errorf("process %d got name %d, with token %d, while process %d, which had token %d, had not released it",
				member, name, token, other>>memberBits, c.token.Load())
		}
	}
	if before := c.token.Swap(token); token != 0 && token <= before {
		return fmt.Errorf("P2 fencing: process %d got name %d with token %d, after token %d was given", member, name, token, before)
	}
	r.acquired.Add(1)
	if c.member.Swap(int64(member)) != int64(member) {
		r.passedOn.Add(1)
	}
	return nil
}

// leave notes that a hold is about to end.
func (r *register) leave(name int, hold int64) error {
	if c := &r.cells[name]; !c.inside.CompareAndSwap(hold, 0) {
		return fmt.Errorf("process %d came in while process %d held name %d", c.inside.Load()>>memberBits, hold>>memberBits, name)
	}
	return nil
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
