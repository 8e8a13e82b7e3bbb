package redlock

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// claim is the state of one owner id: a pending or waiting claim, then the lease.
type claim struct {
	redisclaims.Claim
	b     *Backend
	keys  []string // the lock, the queue
	value string   // the lock's value
	place int64    // in the queues: when the claim was first made, in µs

	mu      sync.Mutex    // guards the following fields
	votes   []vote        // by node
	changed chan struct{} // closed on the next change; nil: nobody waits for one
	round   int32         // of requests to the nodes: claims, or an undo
	splits  int32         // attempts in a row that nobody won
	ended   bool          // released or abandoned: no node is asked to grant it any more

	// The lease.
	grant driver.Grant
	until time.Time // the end of the latest validity
}

// vote is what is known of one node's vote. A held lock has one per node, so vote is kept small.
type vote struct {
	round int32 // the latest that concerns the vote: an earlier one sends nothing more
	state state // of the latest request for the vote

	holds bool // the node has, or may have, the lock for this claim
	waits bool // the node has, or had, the claim in its queue, or may have

	claiming, undoing bool // a claim or retake, a request to undo one: without an answer yet
	// The same, if such a request without an answer may still arrive. Nothing is heard of it. An undo may end the vote at any time, so the
	// vote does not count.
	strayClaim, strayUndo bool
}

// open reports whether the node has, or may have now or later, something of the claim.
func (v *vote) open() bool { return v.state == asked || v.holds || v.strayClaim || v.strayUndo }

// state is the outcome of the latest request for a vote.
type state uint8

const (
	none      state = iota // not requested, or given up
	asked                  // no answer yet
	granted                // the node has the lock for this claim
	held                   // the node has it for another
	abandoned              // the node says that the claim was abandoned
	failed                 // the request had no effect
	unknown                // the request may have had an effect, or may still have one
)

const maxPlace = 4e15 - 1 // see queue.lua

func (b *Backend) newClaim(req driver.Request) *claim {
	return &claim{
		Claim: redisclaims.Claim{Req: req}, b: b, value: redisscript.Value(req.Owner), keys: b.layout.Keys(req.Name),
		place: min(max(time.Now().UnixMicro(), 1), maxPlace),
		votes: make([]vote, len(b.nodes)),
	}
}

// signal makes await check again. The mutex is held.
func (c *claim) signal() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// await waits until patience returns 0 or less, or returns ctx's error when ctx ends. It calls patience at first, after each change, and when the
// duration that patience returned has passed. A node that does not answer is a change too, once its time is over. The mutex is held, except while
// await waits.
func (c *claim) await(ctx context.Context, patience func() time.Duration) error {
	for {
		left := patience()
		if left <= 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(left):
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
}

const forever = driver.MaxTTL // of await's patience: until a change

// count is the number of votes in state st. The mutex is held.
func (c *claim) count(st state) int {
	n := 0
	for i := range c.votes {
		if c.votes[i].state == st {
			n++
		}
	}
	return n
}

// nodeTimeout is how long a node has to answer a request for this claim.
func (c *claim) nodeTimeout() time.Duration {
	return cmp.Or(c.b.o.NodeTimeout, min(max(c.Req.TTL, minTTL)/timeoutsPerTTL, maxNodeTimeout))
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// lost is the error of a claim that lost its majority.
func (c *claim) lost() error {
	return fmt.Errorf("%w: fewer than %d of %d nodes have its key: it expired, or was deleted, overwritten or evicted, or nodes lost their data",
		driver.ErrLost, c.b.quorum, len(c.b.nodes))
}
