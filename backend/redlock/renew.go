package redlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

const (
	// batchKeys is how many locks one script renews. A script of 500 takes Redis about half a millisecond, in which others wait.
	batchKeys = 500
	// retakenAtOnce is how many locks are taken again on a node at once.
	retakenAtOnce = 64
)

// RenewBatch implements driver.BatchRenewer: up to 500 locks in one script, on all nodes at once. A lock that a majority still has is
// taken again, in the background, on the nodes that have lost it.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	r := &renewal{b: b, sent: time.Now(), claims: make([]*claim, len(leases)), votes: make([]votes, len(leases)), errs: make([]error, len(b.nodes))}
	timeout := time.Duration(0)
	for i, l := range leases {
		r.claims[i] = l.(*claim)
		timeout = max(timeout, r.claims[i].nodeTimeout())
	}
	said, over := make(chan renewed, len(b.nodes)), make(chan struct{})
	for i := range b.nodes {
		r.errs[i] = errSilent
		go func() {
			s := r.renewAt(context.WithoutCancel(ctx), i, timeout)
			said <- s
			<-over // the votes stay as they are from now on
			r.retake(s)
		}()
	}
	defer close(over)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var ended error
	for open := len(b.nodes); open > 0 && ended == nil && !r.decided(); open-- {
		select {
		case s := <-said:
			r.count(s)
		case <-timer.C:
			open = 0
		case <-ctx.Done():
			ended = ctx.Err()
		}
	}
	for i := range r.claims {
		results[i] = r.result(i, ended)
	}
}

// renewal is a batch of claims that are being renewed.
type renewal struct {
	b      *Backend
	claims []*claim
	sent   time.Time
	votes  []votes // for each claim
	errs   []error // of each node
}

// votes count what nodes say of a claim.
type votes struct{ ours, gone uint8 }

// renewed is what a node said.
type renewed struct {
	node    int
	replies []any     // to the first claims: 1 for what it has renewed, 0 for what nobody has there; all of them, unless it failed
	clock   int64     // the node's, in ms
	at      time.Time // when that was heard
	err     error
}

// renewAt has node i renew all claims.
func (r *renewal) renewAt(ctx context.Context, i int, timeout time.Duration) renewed {
	s := renewed{node: i}
	for part := range slices.Chunk(r.claims, batchKeys) {
		keys, argv := make([]string, len(part)), make([]any, 2*len(part))
		for n, c := range part {
			keys[n], argv[n], argv[len(part)+n] = c.keys[0], c.value, c.ttlMS()
		}
		reply := r.b.nodes[i].run(ctx, timeout, redisscript.QuorumRenew, keys, argv...)
		list, _ := reply.Value.([]any)
		if reply.Err == nil && len(list) != len(part)+1 {
			reply.Err = fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, reply.Value)
		}
		if s.err = reply.Err; s.err != nil {
			break
		}
		s.at = time.Now()
		s.clock, _ = list[len(part)].(int64)
		s.replies = append(s.replies, list[:len(part)]...)
	}
	return s
}

// count counts the votes of a node.
func (r *renewal) count(s renewed) {
	r.errs[s.node] = s.err
	for n, reply := range s.replies {
		v, c := &r.votes[n], r.claims[n]
		c.mu.Lock()
		vote := &c.votes[s.node]
		switch {
		case reply == int64(1) && !vote.dead:
			v.ours++
		case reply != int64(1) && !vote.flying && vote.state != asked: // else it may be about to come
			v.gone++
		}
		c.mu.Unlock()
	}
}

// decided says whether the nodes that are still silent change nothing.
func (r *renewal) decided() bool {
	q := r.b.quorum
	return !slices.ContainsFunc(r.votes, func(v votes) bool { return int(v.ours) < q && int(v.gone) < q })
}

// result is what became of claim n. ended is the error of the context, if that ended.
func (r *renewal) result(n int, ended error) driver.Renewal {
	v, c, q := r.votes[n], r.claims[n], r.b.quorum
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case int(v.gone) >= q:
		return driver.Renewal{Err: c.lost()}
	case int(v.ours) >= q && !time.Now().Before(c.until):
		return driver.Renewal{Err: fmt.Errorf("%w: the validity ended before a majority of the nodes had answered", driver.ErrUnknown)}
	case int(v.ours) >= q:
		if until := r.sent.Add(c.Req.TTL - drift(c.Req.TTL)); until.After(c.until) {
			c.until = until
		}
		return driver.Renewal{Until: c.until}
	case ended != nil:
		return driver.Renewal{Err: interrupted(ended)}
	}
	class := driver.ErrUnavailable
	if v.ours > 0 || slices.ContainsFunc(r.errs, func(err error) bool { return err != nil && !certain(err) }) {
		class = driver.ErrUnknown
	}
	_, why := r.b.together(r.errs)
	return driver.Renewal{Err: fmt.Errorf("%w: %d of %d nodes have renewed the lock, and %d are needed; %s", class, v.ours, len(r.b.nodes), q, why)}
}

// retake takes the locks that a majority of the nodes has again on one that has lost them.
func (r *renewal) retake(s renewed) {
	var absent []*claim
	for n, reply := range s.replies {
		if reply == int64(0) && int(r.votes[n].ours) >= r.b.quorum {
			absent = append(absent, r.claims[n])
		}
	}
	for part := range slices.Chunk(absent, retakenAtOnce) {
		var all sync.WaitGroup
		for _, c := range part {
			all.Add(1)
			r.b.nodes[s.node].inOrder(c.Req.Name, func() {
				defer all.Done()
				c.retakeAt(s.node, s.clock, s.at)
			})
		}
		all.Wait()
	}
}

// retakeAt takes the lock again on node i, whose clock showed at least clock at the time at. A request that comes after the validity has ended does nothing, and
// neither does one that comes after the claim was given up.
func (c *claim) retakeAt(i int, clock int64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := &c.votes[i]
	if v.dead || c.ended {
		return
	}
	v.flying, v.has = true, true
	end := strconv.FormatInt(clock-1+c.until.Sub(at).Milliseconds(), 10)
	c.mu.Unlock()
	r := c.b.nodes[i].run(context.Background(), maxNodeTimeout, redisscript.QuorumRetake, c.keys[:], c.value, c.ttlMS(), end)
	c.mu.Lock()
	v.flying = false
	v.loose = v.loose || r.Err != nil && !certain(r.Err)
}
