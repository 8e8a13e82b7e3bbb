package redlock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// claim is what this backend knows of one owner id: a claim that is being made or waits, and then the lease.
type claim struct {
	redisclaims.Claim
	b     *Backend
	keys  [2]string // the lock, the queue
	value string    // of the lock
	place int64     // in the queues: when the claim was first made, in µs

	mu      sync.Mutex    // guards what follows
	votes   []vote        // by node
	changed chan struct{} // closed when something changes; nil: nobody waits for that
	round   int32         // counts how often the nodes were asked
	splits  int32         // attempts in a row that nobody won
	heard   time.Time     // when a node last said that another claim has its vote
	ended   bool          // it was released, abandoned or broken: no node is asked to grant it any more

	// The lease.
	grant driver.Grant
	until time.Time // the latest validity
}

// vote is what one node has of a claim, as far as is known. Each lock that is held has as many as there are nodes, so it is kept small.
type vote struct {
	round int32 // of the latest request that claims
	state state

	flying bool // a request that claims, or takes again, is under way
	has    bool // the node has the lock for this claim, or may have
	loose  bool // a request that claims may still arrive, although it is not waited for any more
	dead   bool // the same of one that gives back: the vote may go at any time, and does not count any more
	flag   bool // held: the holder is foreign; granted: others wait

	ms     int64  // held: until the holder's time is up; negative: never
	holder string // held: the lock's value; "": another claim is to have it next
	err    error  // failed, unknown
}

// open says whether the node has something of the claim, or may have, or may yet.
func (v *vote) open() bool { return v.has || v.loose || v.dead }

// state is what became of the latest request for a vote.
type state uint8

const (
	none    state = iota // nothing was asked of the node, or it was given back
	asked                // no answer yet
	granted              // the node has the lock for this claim
	held                 // the node has it for another
	gone                 // the node says that the claim was abandoned
	failed               // the request had no effect
	unknown              // the request may have had an effect, or may still have one
	leaving              // what the node granted, or may grant yet, is being given back
)

const (
	queueKey = "queue"
	maxPlace = 4e15 - 1 // see queue.lua
	// late is for how long the nodes remember a claim that was given up while it was on its way, in case it arrives.
	late = time.Minute
)

func (b *Backend) newClaim(req driver.Request) redisclaims.Member {
	lock := b.layout.Key(req.Name)
	c := &claim{
		b: b, value: redisscript.Value(req.Owner),
		keys:  [2]string{lock, redisscript.Side(lock, queueKey)},
		place: min(max(time.Now().UnixMicro(), 1), maxPlace),
		votes: make([]vote, len(b.nodes)),
	}
	c.Req = req
	return c
}

// tell has await look again. The mutex is held.
func (c *claim) tell() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// await returns when patience says so, which is called whenever something has changed, and returns for how long to wait at most; or when ctx ends, with its
// error. The mutex is held, save while it waits.
func (c *claim) await(ctx context.Context, patience func() time.Duration) error {
	var timer *time.Timer
	for {
		left := patience()
		if left <= 0 {
			return nil
		}
		if timer == nil {
			timer = time.NewTimer(left)
			defer timer.Stop()
		}
		timer.Reset(left)
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed, ended := c.changed, false
		c.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			ended = true
		}
		c.mu.Lock()
		if ended {
			return ctx.Err()
		}
	}
}

// left is for how much longer the nodes that are waited for have time to answer. One that has answered other requests since begun is not silent: this claim's
// request is behind those of other claims on the name. The mutex is held.
func (c *claim) left(timeout time.Duration, begun time.Time, waitedFor func(i int) bool) time.Duration {
	for i, n := range c.b.nodes {
		if at := n.answered(); waitedFor(i) && at.After(begun) {
			begun = at
		}
	}
	return timeout - time.Since(begun)
}

// count is how many votes are in a state. The mutex is held.
func (c *claim) count(st state) int {
	n := 0
	for i := range c.votes {
		if c.votes[i].state == st {
			n++
		}
	}
	return n
}

// ttlMS is the TTL as scripts are given it.
func (c *claim) ttlMS() string {
	return strconv.FormatInt(int64((c.Req.TTL+time.Millisecond-1)/time.Millisecond), 10)
}

// nodeTimeout is how long a node has to answer a request for this claim.
func (c *claim) nodeTimeout() time.Duration { return c.b.o.nodeTimeout(max(c.Req.TTL, minTTL)) }

// undoTimeout is how long a node has to undo this claim: a small TTL is no reason for haste.
func (c *claim) undoTimeout() time.Duration { return max(c.nodeTimeout(), maxNodeTimeout/2) }

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Entry is what Lock.As gives of a lock of Redlock: see As.
type Entry struct {
	Key, Value string // what each node that granted the lock has
}

// As sets target if it is an *Entry.
func (c *claim) As(target any) bool {
	e, ok := target.(*Entry)
	if ok {
		*e = Entry{Key: c.keys[0], Value: c.value}
	}
	return ok
}

// Broken implements redisclaims.Member: a majority of the nodes says that the claim was broken by force.
func (c *claim) Broken() {
	c.mu.Lock()
	first := !c.ended
	c.ended = true
	c.mu.Unlock()
	if first && c.Req.Lost != nil {
		c.Req.Lost(fmt.Errorf("%w: it was broken by force", driver.ErrLost))
	}
}

// lost says that a majority is gone.
func (c *claim) lost() error {
	return fmt.Errorf("%w: fewer than %d of %d nodes have its key: it expired, or was deleted, overwritten or evicted, or nodes lost their data",
		driver.ErrLost, c.b.quorum, len(c.b.nodes))
}
