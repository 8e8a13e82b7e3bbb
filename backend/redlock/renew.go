package redlock

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// batchKeys is how many locks one script renews. A script of 500 takes Redis about half a millisecond, in which others wait.
const batchKeys = 500

// Renew implements driver.Lease.
func (c *claim) Renew(ctx context.Context) (time.Time, error) {
	results := make([]driver.Renewal, 1)
	c.b.RenewBatch(ctx, []driver.Lease{c}, results)
	return results[0].Until, results[0].Err
}

// RenewBatch implements driver.BatchRenewer: up to 500 locks in one script, on all nodes at once. A lock that a majority still has is
// taken again, in the background, on the nodes that have lost it.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	r := &renewal{b: b, sent: time.Now(), done: make(chan struct{}, 1)}
	var at []int // where each has its result
	for i, l := range leases {
		c, ok := l.(*claim)
		if !ok || c.b != b {
			results[i].Err = fmt.Errorf("%w: the lease is not of this backend", driver.ErrRefused)
			continue
		}
		r.claims, at = append(r.claims, c), append(at, i)
	}
	if len(r.claims) == 0 {
		return
	}
	longest := time.Duration(0)
	for _, c := range r.claims {
		longest = max(longest, c.Req.TTL)
	}
	r.ask()
	timer := time.NewTimer(b.o.nodeTimeout(longest))
	defer timer.Stop()
	var ended error
	select {
	case <-r.done:
	case <-timer.C:
	case <-ctx.Done():
		ended = ctx.Err()
	}
	for i, c := range r.claims {
		results[at[i]] = r.result(i, c, ended)
	}
}

// renewal is a batch of claims that are being renewed. A call's number is the node and the script, each of which has up to batchKeys claims.
type renewal struct {
	b      *Backend
	claims []*claim
	sent   time.Time
	done   chan struct{} // has an element when all is decided, or answered

	mu        sync.Mutex // guards what follows
	votes     []votes    // for each claim
	undecided int        // claims
	pending   int        // calls
	failures  []string   // of nodes, each once
	unknown   bool       // one of them may have had an effect
	absent    [][]*claim // by node: claims whose key it has not
}

// votes count what nodes say of a claim.
type votes struct{ ours, gone uint8 }

// ask asks all nodes.
func (r *renewal) ask() {
	scripts := (len(r.claims) + batchKeys - 1) / batchKeys
	r.votes = make([]votes, len(r.claims))
	r.absent = make([][]*claim, len(r.b.nodes))
	r.undecided, r.pending = len(r.claims), scripts*len(r.b.nodes)
	for s := range scripts {
		part := r.part(s)
		keys, argv := make([]string, len(part)), make([]string, 2*len(part))
		for i, c := range part {
			keys[i], argv[i] = c.keys[0], c.value
			argv[len(part)+i] = c.ttlMS()
		}
		for i, n := range r.b.nodes {
			n.line.Call(redisscript.QuorumRenew, keys, argv, redisscript.Terms{}, r, i*scripts+s)
		}
	}
}

func (r *renewal) part(script int) []*claim {
	return r.claims[script*batchKeys : min((script+1)*batchKeys, len(r.claims))]
}

// ttlMS is the TTL as scripts are given it.
func (c *claim) ttlMS() string {
	return strconv.FormatInt(int64((c.Req.TTL+time.Millisecond-1)/time.Millisecond), 10)
}

// Answered implements redisscript.Answer.
func (r *renewal) Answered(call int, reply redisscript.Reply) {
	scripts := (len(r.claims) + batchKeys - 1) / batchKeys
	i, script := call/scripts, call%scripts
	part := r.part(script)
	list, _ := reply.Value.([]any)
	if reply.Err == nil && len(list) != len(part)+1 {
		reply.Err = fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, reply.Value)
	}
	r.mu.Lock()
	if reply.Err != nil {
		if script == 0 {
			r.failures = append(r.failures, plain(reply.Err))
		}
		r.unknown = r.unknown || !certain(reply.Err)
	} else {
		if ms, ok := list[len(part)].(int64); ok {
			r.b.heardClock(i, ms)
		}
		for n, c := range part {
			r.vote(i, script*batchKeys+n, c, list[n])
		}
	}
	r.pending--
	last := r.pending == 0
	if last || r.undecided == 0 {
		select {
		case r.done <- struct{}{}:
		default:
		}
	}
	r.mu.Unlock()
	if last {
		r.retake()
	}
}

// vote counts what node i says of claim n. The mutex is held.
func (r *renewal) vote(i, n int, c *claim, reply any) {
	v := &r.votes[n]
	was := r.decided(v)
	switch reply {
	case int64(1):
		c.mu.Lock()
		if !c.seats[i].mayLose() {
			v.ours++
		}
		c.mu.Unlock()
	case int64(0):
		r.absent[i] = append(r.absent[i], c)
		v.gone++
	default:
		v.gone++
	}
	if !was && r.decided(v) {
		r.undecided--
	}
}

func (r *renewal) decided(v *votes) bool {
	return int(v.ours) >= r.b.quorum || int(v.gone) >= r.b.quorum
}

// result is what became of claim n.
func (r *renewal) result(n int, c *claim, ended error) driver.Renewal {
	r.mu.Lock()
	v, pending, unknown, failures := r.votes[n], r.pending > 0, r.unknown, strings.Join(r.failures, "; ")
	r.mu.Unlock() // what follows makes calls, whose answers may come at once
	if int(v.gone) >= r.b.quorum {
		c.end(lost(c))
		return driver.Renewal{Err: lost(c)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case int(v.ours) >= r.b.quorum && !time.Now().Before(c.until):
		return driver.Renewal{Err: fmt.Errorf("%w: the validity ended before a majority of the nodes had answered", driver.ErrUnknown)}
	case int(v.ours) >= r.b.quorum:
		if until := r.sent.Add(c.Req.TTL - drift(c.Req.TTL)); until.After(c.until) {
			c.until = until
		}
		return driver.Renewal{Until: c.until}
	case ended != nil:
		return driver.Renewal{Err: fmt.Errorf("%w: waiting for the nodes: %w", driver.ErrUnknown, ended)}
	}
	why := fmt.Sprintf("%d of %d nodes have renewed the lock, and %d are needed", v.ours, len(r.b.nodes), r.b.quorum)
	if failures != "" {
		why += ": " + failures
	}
	if pending || unknown || v.ours > 0 {
		return driver.Renewal{Err: fmt.Errorf("%w: %s", driver.ErrUnknown, why)}
	}
	return driver.Renewal{Err: fmt.Errorf("%w: %s", driver.ErrUnavailable, why)}
}

// retake takes the locks that a majority of the nodes has again on those that have lost them. It waits for nothing.
func (r *renewal) retake() {
	r.mu.Lock()
	if !slices.ContainsFunc(r.absent, func(list []*claim) bool { return len(list) > 0 }) {
		r.mu.Unlock()
		return
	}
	majority := make(map[*claim]bool)
	for n, c := range r.claims {
		majority[c] = int(r.votes[n].ours) >= r.b.quorum
	}
	r.mu.Unlock()
	for i, list := range r.absent {
		for len(list) > 0 {
			n := min(len(list), batchKeys)
			r.b.retakeAt(i, list[:n], majority)
			list = list[n:]
		}
	}
}

// retakeAt takes locks again on node i, those that are in which. A request that comes after the validity has ended does nothing.
func (b *Backend) retakeAt(i int, list []*claim, which map[*claim]bool) {
	t := &retaken{i: i}
	var queues, values, ttls, ends []string
	var keys []string
	for _, c := range list {
		c.mu.Lock()
		end, known := b.clockAt(i, c.until)
		s := &c.seats[i]
		if which[c] && known && !c.ended && !c.gaveUp && !s.asking && !s.mayLose() && s.freed == freedNot && c.phase != releasing {
			s.flying++
			s.gen = unsent
			t.claims = append(t.claims, c)
			keys, queues = append(keys, c.keys[0]), append(queues, c.keys[1])
			values, ttls, ends = append(values, c.value), append(ttls, c.ttlMS()), append(ends, strconv.FormatInt(end, 10))
		}
		c.mu.Unlock()
	}
	if len(t.claims) == 0 {
		return
	}
	gen := b.nodes[i].line.Call(redisscript.QuorumRetake, append(keys, queues...), append(append(values, ttls...), ends...),
		redisscript.Terms{}, t, 0)
	if gen == 0 { // nothing was sent
		return
	}
	for _, c := range t.claims {
		c.mu.Lock()
		c.seats[i].gen = gen
		c.mu.Unlock()
	}
}

// unsent is the number of no connection: that of a request which is on its way to the socket. A release that overtakes it finds that its own
// connection is another, and has the node refuse the request.
const unsent = math.MaxUint64

// retaken waits for the answer of a node that is to take locks again.
type retaken struct {
	i      int
	claims []*claim
}

// Answered implements redisscript.Answer.
func (t *retaken) Answered(_ int, r redisscript.Reply) {
	for _, c := range t.claims {
		c.mu.Lock()
		s := &c.seats[t.i]
		s.flying--
		s.loose = s.loose || r.Err != nil && !certain(r.Err)
		c.mu.Unlock()
	}
}
