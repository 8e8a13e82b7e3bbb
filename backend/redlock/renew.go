package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// retakenAtOnce is how many locks are retaken on a node at once.
const retakenAtOnce = 64

// RenewBatch implements driver.BatchRenewer: up to 350 locks in one script, on all nodes at once. A lock that a majority still has is retaken in
// the background on nodes that lost it.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	for at := range slices.Chunk(leases, redisscript.MaxTogether) {
		b.renew(ctx, at, results)
		results = results[len(at):]
	}
}

// renew renews leases with one request to each node.
func (b *Backend) renew(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	r := &renewal{b: b, sent: time.Now(), claims: make([]*claim, len(leases)), tallies: make([]tally, len(leases)), errs: make([]error, len(b.nodes))}
	keys, argv, timeout := make([]string, len(leases)), make([]any, 2*len(leases)), time.Duration(0)
	for i, l := range leases {
		c := l.(*claim)
		r.claims[i], keys[i], argv[i], argv[len(leases)+i] = c, c.keys[0], c.value, c.TTL()
		timeout = max(timeout, c.nodeTimeout())
	}
	replies, counted := make(chan nodeReply, len(b.nodes)), make(chan struct{})
	for i := range b.nodes {
		go func() {
			reply := b.nodes[i].run(context.WithoutCancel(ctx), timeout, redisscript.QuorumRenew, keys, argv...)
			s := nodeReply{node: i, err: reply.Err}
			if s.list, _ = reply.Value.([]any); s.err == nil && len(s.list) != len(leases)+1 {
				s.err = reply.Unexpected()
			}
			replies <- s
			if <-counted; s.err == nil { // from now on r.tallies does not change
				r.retake(s)
			}
		}()
	}
	defer close(counted)
	for open := len(b.nodes); open > 0 && !r.decided(); open-- {
		select {
		case s := <-replies:
			r.count(s)
		case <-ctx.Done():
		}
	}
	for i := range r.claims {
		results[i] = r.result(i, ctx.Err())
	}
}

// renewal is a batch of claims under renewal.
type renewal struct {
	b       *Backend
	claims  []*claim
	sent    time.Time
	tallies []tally // for each claim
	errs    []error // of each node
}

// tally counts the nodes' replies for a claim.
type tally struct{ ours, gone int }

// nodeReply is a node's reply.
type nodeReply struct {
	node int
	list []any // for each claim 1 if renewed, 0 if free, else the lock's value; then the node's clock in ms
	err  error // there is no list
}

// count adds a node's votes.
func (r *renewal) count(s nodeReply) {
	r.errs[s.node] = s.err
	if s.err != nil {
		return
	}
	for n, c := range r.claims {
		t, ours := &r.tallies[n], s.list[n] == int64(1)
		c.mu.Lock()
		v := &c.votes[s.node]
		switch {
		case v.state == asked: // the vote may be about to come, or to be released by an earlier request
		case ours && !v.strayUndo:
			t.ours++
		case !ours && !v.claiming:
			t.gone++
		}
		c.mu.Unlock()
	}
}

// decided reports whether the silent nodes cannot change any outcome.
func (r *renewal) decided() bool {
	q := r.b.quorum
	return !slices.ContainsFunc(r.tallies, func(t tally) bool { return t.ours < q && t.gone < q })
}

// result is the outcome for claim n. ended is the context's error, if it ended.
func (r *renewal) result(n int, ended error) driver.Renewal {
	t, c, q := r.tallies[n], r.claims[n], r.b.quorum
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case t.gone >= q:
		return driver.Renewal{Err: c.lost()}
	case t.ours >= q && !time.Now().Before(c.until):
		return driver.Renewal{Err: fmt.Errorf("%w: the validity ended before a majority of the nodes had answered", driver.ErrUnknown)}
	case t.ours >= q:
		c.until = r.sent.Add(c.Req.TTL - drift(c.Req.TTL))
		return driver.Renewal{Until: c.until}
	case ended != nil:
		return driver.Renewal{Err: interrupted(ended)}
	}
	class := driver.ErrUnavailable
	if t.ours > 0 || slices.ContainsFunc(r.errs, unsure) {
		class = driver.ErrUnknown
	}
	_, why := r.b.byReason(r.errs)
	return driver.Renewal{Err: fmt.Errorf("%w: the lock was renewed on %d of %d nodes, and %d are needed; %s", class, t.ours, len(r.b.nodes), q, why)}
}

// retake retakes, on a node that lost them, the locks that a majority of the nodes has.
func (r *renewal) retake(s nodeReply) {
	clock, _ := s.list[len(r.claims)].(int64)
	underWay := make(chan struct{}, retakenAtOnce)
	for n, c := range r.claims {
		if s.list[n] != int64(0) || r.tallies[n].ours < r.b.quorum {
			continue
		}
		underWay <- struct{}{}
		r.b.nodes[s.node].inOrder(c.Req.Name, func() {
			c.retakeAt(s.node, clock)
			<-underWay
		})
	}
}

// retakeAt retakes the lock on node i, whose clock shows clock or more. A request does nothing if it arrives after the validity has ended, or
// after the claim was given up.
func (c *claim) retakeAt(i int, clock int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := &c.votes[i]
	if v.strayUndo || c.ended {
		return
	}
	v.claiming, v.holds = true, true
	end := clock - 1 + time.Until(c.until).Milliseconds()
	c.mu.Unlock()
	r := c.b.nodes[i].run(context.Background(), maxNodeTimeout, redisscript.QuorumRetake, c.keys, c.value, c.TTL(), end)
	c.mu.Lock()
	v.claiming, v.strayClaim = false, v.strayClaim || unsure(r.Err)
}
