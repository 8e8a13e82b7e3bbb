package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

const (
	// pollSplit is how soon a waiter polls after a split vote; doubled for each in a row.
	pollSplit = 10 * time.Millisecond
	// contestTime bounds how long, after a split vote, the first of the claims asks for the votes that the others release.
	contestTime = time.Second
	// stragglerTime is how long to wait for silent nodes once a majority has answered; or as long as that took, if longer.
	stragglerTime = 250 * time.Millisecond
)

// attempt is one attempt of a claim to get the lock.
type attempt struct {
	*claim
	queue  bool                  // it asks for places in the queues
	sent   time.Time             // before its first request
	before int32                 // the claim's splits before it
	got    []redisscript.Claimed // by node: granted, held
	errs   []error               // by node: failed, unknown
}

// acquire makes one attempt, as in the recipe: it asks all nodes and counts their votes. Unless a majority granted the lock in time, it gives
// the votes back.
func (c *claim) acquire(ctx context.Context, queue bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.votes)
	a := &attempt{claim: c, queue: queue, sent: time.Now(), before: c.splits, got: make([]redisscript.Claimed, n), errs: make([]error, n)}
	switch err := a.win(ctx); {
	case err == nil:
		return nil
	case queue && errors.Is(err, driver.ErrHeld):
		return c.giveBack(ctx, err, c.place)
	default:
		return c.giveBack(ctx, err, "")
	}
}

// win makes the claim a lease, or says why it cannot. After a split vote, the first of the claims asks again for the votes that the others give
// back. The mutex is held.
func (a *attempt) win(ctx context.Context) error {
	var end time.Time // of asking again
	for {
		a.ask(context.WithoutCancel(ctx))
		ended := a.awaitVotes(ctx)
		q, got, others := a.b.quorum, a.count(granted), a.count(held)
		switch {
		case a.ended:
			return fmt.Errorf("%w: this claim was abandoned meanwhile", driver.ErrUnknown)
		case ended != nil:
			return interrupted(ended)
		case got >= q:
			return a.accept()
		case got+others < q:
			return a.tooFew()
		}
		switch err, first := a.heldError(q - got); {
		case !first:
			return err
		case end.IsZero():
			end = time.Now().Add(min(contestTime>>a.before, a.nodeTimeout()))
		case !time.Now().Before(end):
			return err
		}
		next := time.Now().Add(rand.N(2 * time.Millisecond))
		if ended := a.await(ctx, func() time.Duration { return time.Until(next) }); ended != nil {
			return interrupted(ended)
		}
	}
}

// ask asks all nodes that have not granted the claim, at once. ctx must have no end. The mutex is held.
func (a *attempt) ask(ctx context.Context) {
	a.round++
	round := a.round
	for i, n := range a.b.nodes {
		v := &a.votes[i]
		if a.ended || v.state == asked || v.state == granted {
			continue
		}
		v.round, v.state = round, asked
		if a.errs[i] = n.admit(a.nodeTimeout(), false); a.errs[i] == nil {
			n.inOrder(a.Req.Name, func() { a.askAt(ctx, i, round) })
			continue
		}
		v.state = failed
		v.strayUndo = v.strayUndo || v.undoing // no request follows it, so it may end the vote at any time
	}
}

var errStrayUndo = fmt.Errorf("%w: a request to release an earlier vote may still arrive", driver.ErrUnavailable)

// askAt asks node i for its vote, unless the vote is no longer wanted.
func (a *attempt) askAt(ctx context.Context, i int, round int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.signal()
	v := &a.votes[i]
	switch {
	case v.round != round: // released, or freed
		return
	case v.strayUndo:
		v.state, a.errs[i] = failed, errStrayUndo
		return
	}
	had := v.holds
	v.claiming, v.holds = true, true
	a.mu.Unlock()
	r := a.b.nodes[i].run(ctx, a.nodeTimeout(), redisscript.QuorumAcquire, a.keys, a.value, a.TTL(), a.queue, a.place)
	a.mu.Lock()
	got, err := r.Claimed()
	st := unknown
	switch {
	case err != nil && !unsure(err):
		st = failed
	case err != nil:
	case got.Status == redisscript.Held:
		st = held
	case got.Status == redisscript.Granted && got.Number == 0: // nodes draw no tokens
		st = granted
	case got.Status == redisscript.Abandoned:
		st = abandoned
	default:
		err = r.Unexpected()
	}
	v.claiming, v.strayClaim = false, v.strayClaim || unsure(err)
	v.holds = st == granted || st == unknown || st == failed && had // a failed request changes nothing at the node
	v.waits = v.waits || st != failed
	if v.round == round { // otherwise it is being released, or was asked for again
		v.state, a.got[i], a.errs[i] = st, got, err
	}
}

// awaitVotes waits until this claim has a majority or cannot get one. If a majority has answered and other claims have votes, it waits for
// silent nodes only as stragglerTime says. A claim that kept its votes until a hung node timed out would outlast the claim that should get
// them, and nobody would win. The mutex is held.
func (a *attempt) awaitVotes(ctx context.Context) error {
	begun, q := time.Now(), a.b.quorum
	seen, since := 0, begun // votes of other claims, and when the last one was noticed
	return a.await(ctx, func() time.Duration {
		got, others, open := a.count(granted), a.count(held), a.count(asked)
		if others > seen {
			seen, since = others, time.Now()
		}
		switch {
		case a.ended, got >= q:
			return 0
		case got+open < q && (got+others >= q || got+others+open < q): // no majority, and the reason is certain: other claims, or too few nodes
			return 0
		case got+others >= q:
			return max(stragglerTime, since.Sub(begun)) - time.Since(since)
		}
		return forever
	})
}

// accept makes the claim a lease, unless the answers of a majority took too long. The mutex is held.
func (a *attempt) accept() error {
	until := a.sent.Add(a.Req.TTL - drift(a.Req.TTL))
	if !time.Now().Before(until) {
		return fmt.Errorf("%w: a majority of the nodes granted the lock, but too late to be of use", driver.ErrUnavailable)
	}
	a.grant.Until, a.until, a.splits = until, until, 0
	for i := range a.votes {
		a.grant.Contended = a.grant.Contended || a.votes[i].state == granted && a.got[i].Flag
	}
	return nil
}

// heldError is the error of a claim that lacks missing votes because of other claims. first: no claim has a majority, and of the claims with votes
// this one comes first. The mutex is held.
func (a *attempt) heldError(missing int) (h *driver.HeldError, first bool) {
	h, first = &driver.HeldError{Poll: redisclaims.PollUnheard}, true
	votes, most, foreign := make(map[string]int), 0, false
	var ends []int64 // when other claims' votes expire, in ms from now
	for i, r := range a.got {
		if a.votes[i].state != held {
			continue
		}
		votes[r.Value]++
		most = max(most, votes[r.Value])
		owner, other := redisscript.Owner(r.Value)
		first = first && !other && r.Value > a.value
		foreign = foreign || r.Flag
		if votes[r.Value] >= a.b.quorum && r.Value != "" {
			h.Holder.Owner, h.Holder.Foreign = owner, other
		}
		if r.Number >= 0 {
			ends = append(ends, r.Number)
		}
	}
	if slices.Sort(ends); len(ends) >= missing { // otherwise it is not known when enough of them have expired
		h.ExpiresIn = redisscript.Duration(max(ends[missing-1], 1)) // 0 means within this millisecond
	}
	split := most < a.b.quorum && votes[""] == 0 // perhaps nobody holds it
	a.splits = 0
	switch {
	case foreign:
		h.Poll = redisclaims.PollForeign
	case split:
		a.splits = a.before + 1
		h.Poll = time.Millisecond + rand.N(min(pollSplit<<min(a.splits, 8), redisclaims.PollUnheard))
	case a.b.claims.Heard(a.Req.Owner):
		h.Poll = redisclaims.PollHeard
	}
	return h, split && first
}

// tooFew is the error of a claim that too few nodes answered. With a stray undo it is ErrUnknown: the client then abandons this claim, and
// the node can vote for another owner. The mutex is held.
func (a *attempt) tooFew() error {
	switch {
	case a.count(abandoned) > 0:
		return fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused)
	case slices.ContainsFunc(a.votes, func(v vote) bool { return v.strayUndo }):
		return fmt.Errorf("%w: %s", driver.ErrUnknown, a.b.shortage(a.errs))
	}
	return a.b.majority(a.errs)
}
