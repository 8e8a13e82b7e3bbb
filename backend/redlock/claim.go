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

	holds  bool     // the node has, or may have, the lock for this claim
	waits  bool     // the node has, or had, the claim in its queue, or may have
	claims requests // that claim or retake
	undos  requests // a stray one may end the vote at any time, so the vote does not count
}

// open reports whether the node has, or may have now or later, something of the claim.
func (v *vote) open() bool {
	return v.state == asked || v.holds || v.claims.are(stray) || v.undos.are(stray)
}

// requests says what is known of a claim's requests of one kind to a node; 0: all are answered, or there was none.
type requests uint8

const (
	underWay requests = 1 << iota // the latest has no answer yet
	stray                         // one that nobody waits for any more may still arrive
)

// begin notes that a request is sent.
func (r *requests) begin() { *r |= underWay }

// are reports whether some of them are what.
func (r requests) are(what requests) bool { return r&what != 0 }

// end notes the outcome of a request. Nothing is heard of a stray one.
func (r *requests) end(err error) {
	*r &^= underWay
	if err != nil && !certain(err) {
		*r |= stray
	}
}

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
// duration that patience returned has passed. The mutex is held, except while await waits.
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

// left is how much longer the awaited nodes have to answer. A node that answered another request since begun is not silent: this claim's
// request is queued behind others for the name. The mutex is held.
func (c *claim) left(timeout time.Duration, begun time.Time, waitedFor func(i int) bool) time.Duration {
	for i, n := range c.b.nodes {
		if at := n.answered(); waitedFor(i) && at.After(begun) {
			begun = at
		}
	}
	return timeout - time.Since(begun)
}

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

// undoTimeout is how long a node has to undo this claim: a short TTL needs no haste here.
func (c *claim) undoTimeout() time.Duration { return max(c.nodeTimeout(), maxNodeTimeout/2) }

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// lost is the error of a claim that lost its majority.
func (c *claim) lost() error {
	return fmt.Errorf("%w: fewer than %d of %d nodes have its key: it expired, or was deleted, overwritten or evicted, or nodes lost their data",
		driver.ErrLost, c.b.quorum, len(c.b.nodes))
}
