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

// acquire makes one claim. Unless it returns nil, it releases what the nodes granted.
func (c *claim) acquire(ctx context.Context, queue bool) error {
	sent := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.splits
	var begun time.Time // asking for released votes
	for {
		c.ask(context.WithoutCancel(ctx), queue)
		err, first := c.judge(c.awaitVotes(ctx), before)
		until := sent.Add(c.Req.TTL - drift(c.Req.TTL))
		switch {
		case err == nil && time.Now().Before(until):
			c.accept(until)
			return nil
		case err == nil:
			err = fmt.Errorf("%w: a majority of the nodes granted the lock, but too late to be of use", driver.ErrUnavailable)
		case first && begun.IsZero():
			begun = time.Now()
		}
		if first && time.Since(begun) < min(contestTime>>min(before, 8), c.nodeTimeout()) {
			next := time.Now().Add(rand.N(2 * time.Millisecond))
			ended := c.await(ctx, func() time.Duration { return time.Until(next) })
			if ended == nil {
				continue
			}
			err = interrupted(ended)
		}
		if queue && errors.Is(err, driver.ErrHeld) {
			return c.releaseVotes(ctx, err, c.place)
		}
		return c.releaseVotes(ctx, err, "")
	}
}

// ask asks all nodes that have not granted the claim, at once. ctx must have no end. The mutex is held.
func (c *claim) ask(ctx context.Context, queue bool) {
	c.round++
	round := c.round
	for i, n := range c.b.nodes {
		v := &c.votes[i]
		if c.ended || v.state == asked || v.state == granted {
			continue
		}
		v.round, v.holder, v.state = round, "", asked
		if v.err = errStrayUndo; !v.strayUndo {
			v.err = n.admit(c.nodeTimeout())
		}
		if v.err != nil { // no request follows the undo under way, which may end the vote at any time
			v.state, v.strayUndo = failed, v.strayUndo || v.undoing
			continue
		}
		n.inOrder(c.Req.Name, func() { c.claimAt(ctx, i, round, queue) })
	}
}

var errStrayUndo = fmt.Errorf("%w: a request to release an earlier vote may still arrive", driver.ErrUnavailable)

// claimAt asks node i for its vote, unless the vote is no longer wanted.
func (c *claim) claimAt(ctx context.Context, i int, round int32, queue bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := &c.votes[i]
	switch {
	case v.round != round: // released, or freed
		return
	case v.strayUndo: // since ask: a request before this one was not answered
		v.state, v.err = failed, errStrayUndo
		c.signal()
		return
	}
	had := v.mayHold // since an earlier request: a refused one changes nothing at the node
	v.inFlight, v.mayHold = true, true
	c.mu.Unlock()
	r := c.b.nodes[i].runAdmitted(ctx, c.nodeTimeout(), redisscript.QuorumAcquire, c.keys, c.value, c.TTL(), queue, c.place)
	c.mu.Lock()
	v.inFlight = false
	st := v.answered(r)
	v.mayHold = v.mayHold || had && certain(r.Err)
	v.mayWait = v.mayWait || !certain(r.Err)
	if v.round == round { // otherwise it is being released, or was asked for again
		v.state = st
	}
	c.signal()
}

// answered records a node's reply to a claim.
func (v *vote) answered(r redisscript.Reply) state {
	got, err := r.Claimed()
	v.ms, v.flag, v.holder, v.mayHold, v.err = got.Number, got.Flag, got.Value, false, err
	switch {
	case certain(err):
		return failed
	case err == nil && got.Status == redisscript.Held:
		return held
	case err == nil && got.Status == redisscript.Granted && got.Number == 0: // nodes draw no tokens
		v.mayHold = true
		return granted
	case err == nil && got.Status == redisscript.Abandoned:
		return abandoned
	case err == nil:
		v.err = r.Unexpected()
	}
	v.mayHold, v.strayClaim = true, true
	return unknown
}

// awaitVotes waits until this claim has a majority or cannot get one. If a majority has answered and other claims have votes, it waits for
// silent nodes only as stragglerTime says. A claim that kept its votes until a hung node timed out would outlast the claim that should get
// them, and nobody would win. The mutex is held.
func (c *claim) awaitVotes(ctx context.Context) error {
	begun, q := time.Now(), c.b.quorum
	seen, since := 0, begun // votes of other claims, and when the last one was noticed
	return c.await(ctx, func() time.Duration {
		got, others, open := c.count(granted), c.count(held), c.count(asked)
		if others > seen {
			seen, since = others, time.Now()
		}
		switch {
		case c.ended, open == 0, got >= q, got+open < q && (got+others >= q || got+others+open < q):
			return 0
		}
		left := c.left(c.nodeTimeout(), begun, func(i int) bool { return c.votes[i].state == asked })
		if others > 0 && got+others >= q {
			left = min(left, max(stragglerTime, since.Sub(begun))-time.Since(since))
		}
		return left
	})
}

// accept makes the claim a lease. The mutex is held.
func (c *claim) accept(until time.Time) {
	c.grant.Until, c.until, c.splits = until, until, 0
	for i := range c.votes {
		c.grant.Contended = c.grant.Contended || c.votes[i].state == granted && c.votes[i].flag
	}
}

// judge evaluates the votes; nil: a majority. first: no claim has a majority, and of the claims with votes this one comes first. ended is the
// context's error, if it ended. before is the number of earlier attempts in a row that nobody won. The mutex is held.
func (c *claim) judge(ended error, before int32) (err error, first bool) {
	q, got, others := c.b.quorum, c.count(granted), c.count(held)
	switch {
	case c.ended:
		return fmt.Errorf("%w: this claim was abandoned meanwhile", driver.ErrUnknown), false
	case ended != nil:
		return interrupted(ended), false
	case got >= q:
		return nil, false
	case got+others < q && c.count(abandoned) > 0:
		return fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused), false
	case got+others < q:
		return c.tooFew(), false
	}
	votes := make(map[string]int)
	most, foreign, first := 0, false, true
	h := &driver.HeldError{ExpiresIn: c.freeIn(got), Poll: redisclaims.PollUnheard}
	for i := range c.votes {
		v := &c.votes[i]
		if v.state != held {
			continue
		}
		votes[v.holder]++
		most = max(most, votes[v.holder])
		owner, other := redisscript.Owner(v.holder)
		first = first && !other && v.holder > c.value
		foreign = foreign || v.flag
		if votes[v.holder] >= q && v.holder != "" {
			h.Holder.Owner, h.Holder.Foreign = owner, other
		}
	}
	split := !foreign && most < q && votes[""] == 0 // perhaps nobody holds it
	c.splits = 0
	switch {
	case foreign:
		h.Poll = redisclaims.PollForeign
	case split:
		c.splits = before + 1
		h.Poll = time.Millisecond + rand.N(min(pollSplit<<min(c.splits, 8), redisclaims.PollUnheard))
	case c.b.claims.Heard(c.Req.Owner):
		h.Poll = redisclaims.PollHeard
	}
	return h, split && first
}

// freeIn is how long until enough votes of other claims have expired for a majority, together with got votes; 0: unknown. The mutex is held.
func (c *claim) freeIn(got int) time.Duration {
	var all []int64
	for i := range c.votes {
		if v := &c.votes[i]; v.state == held && v.ms >= 0 {
			all = append(all, v.ms)
		}
	}
	missing := max(c.b.quorum-got, 1)
	if len(all) < missing {
		return 0
	}
	slices.Sort(all)
	return redisscript.Duration(max(all[missing-1], 1)) // 0 means within this millisecond
}

// tooFew is the error of a claim that too few nodes answered. With a stray undo it is ErrUnknown: the client then abandons this claim, and
// the node can vote for another owner. The mutex is held.
func (c *claim) tooFew() error {
	errs, strayUndo := make([]error, len(c.votes)), false
	for i := range c.votes {
		if v := &c.votes[i]; v.state == failed || v.state == unknown {
			errs[i] = v.err
		}
		strayUndo = strayUndo || c.votes[i].strayUndo
	}
	if c.b.majority(errs) == nil { // otherwise the silent nodes do not matter
		for i := range c.votes {
			if c.votes[i].state == asked {
				errs[i] = errSilent
			}
		}
	}
	if err := c.b.majority(errs); err != nil && !strayUndo {
		return err
	}
	return fmt.Errorf("%w: %s", driver.ErrUnknown, c.b.shortage(errs))
}
