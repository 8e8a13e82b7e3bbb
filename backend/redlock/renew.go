package redlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// batchKeys is how many locks one script renews. A script of 500 takes Redis about half a millisecond, in which others wait.
const batchKeys = 500

// RenewBatch implements driver.BatchRenewer: up to 500 locks in one script, on all nodes at once. A lock that a majority still has is
// taken again, in the background, on the nodes that have lost it.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	r := &renewal{b: b, sent: time.Now(), claims: make([]*claim, len(leases)), votes: make([]votes, len(leases)), undecided: len(leases)}
	timeout := time.Duration(0)
	for i, l := range leases {
		r.claims[i] = l.(*claim)
		timeout = max(timeout, r.claims[i].nodeTimeout())
	}
	said := make(chan renewed, len(b.nodes))
	for i := range b.nodes {
		go func() { said <- r.renewAt(context.WithoutCancel(ctx), i, timeout) }()
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var ended error
	for late := false; r.undecided > 0 && len(r.heard) < len(b.nodes) && !late && ended == nil; {
		select {
		case s := <-said:
			r.count(s)
		case <-timer.C:
			late = true
		case <-ctx.Done():
			ended = ctx.Err()
		}
	}
	for i := range r.claims {
		results[i] = r.result(i, ended)
	}
	go func() {
		for len(r.heard) < len(b.nodes) {
			r.count(<-said)
		}
		for _, s := range r.heard {
			r.retake(s)
		}
	}()
}

// renewal is a batch of claims that are being renewed.
type renewal struct {
	b         *Backend
	claims    []*claim
	sent      time.Time
	votes     []votes // for each claim
	undecided int     // claims
	heard     []renewed
}

// votes count what nodes say of a claim.
type votes struct{ ours, gone uint8 }

// renewed is what a node said.
type renewed struct {
	node    int
	replies []any // to the first claims: 1 for what it has renewed, 0 for what nobody has there; all of them, unless it failed
	ahead   int64 // by how much its clock is ahead of ours, in ms, at least
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
		if clock, ok := list[len(part)].(int64); ok {
			ahead := clock - r.b.ms(time.Now()) - 1
			if len(s.replies) > 0 {
				ahead = min(ahead, s.ahead)
			}
			s.ahead = ahead
		}
		s.replies = append(s.replies, list[:len(part)]...)
	}
	return s
}

// count counts the votes of a node.
func (r *renewal) count(s renewed) {
	r.heard = append(r.heard, s)
	for n, reply := range s.replies {
		v, c := &r.votes[n], r.claims[n]
		was := r.decided(v)
		c.mu.Lock()
		vote := &c.votes[s.node]
		switch {
		case reply == int64(1) && !vote.tainted: // else it may go at any time
			v.ours++
		case reply != int64(1) && !vote.flying && vote.state != asked: // else it may be about to come
			v.gone++
		}
		c.mu.Unlock()
		if !was && r.decided(v) {
			r.undecided--
		}
	}
}

func (r *renewal) decided(v *votes) bool {
	return int(v.ours) >= r.b.quorum || int(v.gone) >= r.b.quorum
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
	if v.ours > 0 || len(r.heard) < len(r.b.nodes) {
		class = driver.ErrUnknown
	}
	why := []string{fmt.Sprintf("%d of %d nodes have renewed the lock, and %d are needed", v.ours, len(r.b.nodes), q)}
	for _, s := range r.heard {
		if s.err != nil {
			why = append(why, together([]failure{r.b.nodes[s.node].failure(s.err)}))
			if !certain(s.err) {
				class = driver.ErrUnknown
			}
		}
	}
	return driver.Renewal{Err: fmt.Errorf("%w: %s", class, strings.Join(why, "; "))}
}

// retake takes the locks that a majority of the nodes has again on one that has lost them.
func (r *renewal) retake(s renewed) {
	var absent []*claim
	for n, reply := range s.replies {
		if reply == int64(0) && int(r.votes[n].ours) >= r.b.quorum {
			absent = append(absent, r.claims[n])
		}
	}
	for part := range slices.Chunk(absent, batchKeys) {
		r.b.retakeAt(s.node, part, s.ahead)
	}
}

// retakeAt takes locks again on node i, whose clock is ahead of ours by so many ms at least. A request that comes after the validity has ended does
// nothing, and neither does one that comes after the claim was given up.
func (b *Backend) retakeAt(i int, list []*claim, ahead int64) {
	n := b.nodes[i]
	done := make(chan struct{})
	defer close(done)
	var taken []*claim
	var keys, queues []string
	var values, ttls, ends []any
	for _, c := range list {
		c.mu.Lock()
		if v := &c.votes[i]; !v.tainted && !c.gaveUp && !c.ended && n.occupy(c.Req.Name, done) { // a release waits for it
			v.flying, v.has = true, true
			taken, keys, queues = append(taken, c), append(keys, c.keys[0]), append(queues, c.keys[1])
			values, ttls, ends = append(values, c.value), append(ttls, c.ttlMS()), append(ends, strconv.FormatInt(ahead+b.ms(c.until), 10))
		}
		c.mu.Unlock()
	}
	if len(taken) == 0 {
		return
	}
	reply := n.run(context.Background(), maxNodeTimeout, redisscript.QuorumRetake, append(keys, queues...), slices.Concat(values, ttls, ends)...)
	for _, c := range taken {
		c.mu.Lock()
		v := &c.votes[i]
		v.flying = false
		v.loose = v.loose || reply.Err != nil && !certain(reply.Err)
		c.mu.Unlock()
		n.over(c.Req.Name, done)
	}
}
