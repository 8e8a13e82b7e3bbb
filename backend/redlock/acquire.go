package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

const (
	// When a waiter looks again although nothing told it to.
	pollHeard   = 5 * time.Second        // the safety net under notification
	pollUnheard = 250 * time.Millisecond // before the notification is there, or where it is not permitted
	pollForeign = 100 * time.Millisecond // behind a foreign client, which tells nobody that it releases
	pollSplit   = 10 * time.Millisecond  // after a split vote; longer with each in a row

	// stubborn is for how long at most the first among claims that have split the votes asks for the votes of the others, which give
	// them back.
	stubborn = time.Second
	// straggling is for how long silent nodes are waited for, or for as long as the others took, once a majority has answered.
	straggling = 250 * time.Millisecond
)

// acquire makes one claim. What the nodes granted is given back unless it returns nil.
func (c *claim) acquire(ctx context.Context, queue bool) error {
	sent := time.Now()
	flag, place := "0", strconv.FormatInt(c.place, 10)
	if queue {
		flag = "1"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.splits
	var begun time.Time // of the struggle for votes
	for {
		c.ask(context.WithoutCancel(ctx), c.value, c.ttlMS(), flag, place)
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
		if first && time.Since(begun) < min(stubborn>>min(before, 8), c.nodeTimeout()) {
			next := time.Now().Add(rand.N(2 * time.Millisecond))
			ended := c.await(ctx, func() time.Duration { return time.Until(next) })
			if ended == nil {
				continue
			}
			err = interrupted(ended)
		}
		if !queue || !errors.Is(err, driver.ErrHeld) {
			place = ""
		}
		return c.giveBack(ctx, err, place)
	}
}

// ask asks the nodes that have not granted the claim, all at once. ctx has no end. The mutex is held.
func (c *claim) ask(ctx context.Context, argv ...any) {
	c.round++
	round := c.round
	for i, n := range c.b.nodes {
		v := &c.votes[i]
		if c.ended || v.state == asked || v.state == granted {
			continue
		}
		v.round, v.holder, v.state = round, "", asked
		if v.err = errDead; !v.dead {
			v.err = n.admit()
		}
		if v.err != nil {
			v.state = failed
			continue
		}
		n.inOrder(c.Req.Name, func() { c.claimAt(ctx, i, round, argv) })
	}
}

var errDead = fmt.Errorf("%w: a request to give back an earlier vote may still arrive", driver.ErrUnavailable)

// claimAt asks node i for its vote, unless that is not wanted any more.
func (c *claim) claimAt(ctx context.Context, i int, round int32, argv []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := &c.votes[i]
	wanted := func() bool { return v.round == round && v.state == asked && !c.ended }
	if !wanted() {
		return
	}
	v.flying, v.has = true, true
	c.mu.Unlock()
	r := c.b.nodes[i].runAdmitted(ctx, c.nodeTimeout(), redisscript.QuorumAcquire, c.keys[:], argv...)
	c.mu.Lock()
	v.flying = false
	st := v.answered(r)
	if st == held {
		c.heard = time.Now()
	}
	if wanted() { // else it is being given back, or was asked for anew
		v.state = st
	}
	c.tell()
}

// What claim.lua replies first.
const (
	saysHeld    = 0
	saysGranted = 1
	saysGone    = 2
)

// answered notes what a node said to a claim.
func (v *vote) answered(r redisscript.Reply) state {
	v.ms, v.flag, v.has, v.err = 0, false, false, r.Err
	status := int64(saysGranted) // the easy case replies with a number alone
	if list, ok := r.Value.([]any); ok && len(list) > 0 {
		status, _ = list[0].(int64)
		if len(list) > 2 {
			waiting, _ := list[2].(int64) // or whether the holder is foreign
			v.ms, _ = list[1].(int64)
			v.flag = waiting > 0
		}
		if len(list) > 3 {
			v.holder, _ = list[3].(string)
		}
	}
	switch {
	case r.Err != nil && certain(r.Err):
		return failed
	case r.Err != nil:
		v.has, v.loose = true, true
		return unknown
	case status == saysHeld:
		return held
	case status == saysGone:
		return gone
	}
	v.has = true
	return granted
}

// awaitVotes waits for a majority, or the certainty that there is none. Where a majority has answered and others have votes, it does not wait much
// longer for the silent nodes than it took those: a claim that holds its votes until a hung node's time is over outlasts the patience of the one
// that they are to go to, and nobody wins. The mutex is held.
func (c *claim) awaitVotes(ctx context.Context) error {
	begun, q := time.Now(), c.b.quorum
	return c.await(ctx, func() time.Duration {
		got, others, open := c.count(granted), c.count(held), c.count(asked)
		switch {
		case c.ended, open == 0, got >= q, got+open < q && (got+others >= q || got+others+open < q):
			return 0
		}
		left := c.left(c.nodeTimeout(), begun, func(i int) bool { return c.votes[i].state == asked })
		if others > 0 && got+others >= q {
			left = min(left, max(straggling, c.heard.Sub(begun))-time.Since(c.heard))
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

// judge says what the votes come to. nil: a majority. first: nobody has one, and none of the claims that have votes comes before this one. ended is the error
// of the context, if that ended, and before how many attempts in a row nobody had won before this one. The mutex is held.
func (c *claim) judge(ended error, before int32) (err error, first bool) {
	q, got, others := c.b.quorum, c.count(granted), c.count(held)
	switch {
	case c.ended:
		return fmt.Errorf("%w: this claim was abandoned meanwhile", driver.ErrUnknown), false
	case ended != nil:
		return interrupted(ended), false
	case got >= q:
		return nil, false
	case got+others < q && c.count(gone) > 0:
		return fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused), false
	case got+others < q:
		return c.tooFew(), false
	}
	votes := make(map[string]int)
	most, foreign, first := 0, false, true
	h := &driver.HeldError{ExpiresIn: c.freeIn(got), Poll: pollUnheard}
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
	split := !foreign && most < q && votes[""] == 0 // nobody has it, perhaps
	c.splits = 0
	switch {
	case foreign:
		h.Poll = pollForeign
	case split:
		c.splits = before + 1
		h.Poll = time.Millisecond + rand.N(min(pollSplit<<min(c.splits, 8), pollUnheard))
	case c.b.claims.Heard(c.Req.Owner):
		h.Poll = pollHeard
	}
	return h, split && first
}

// freeIn is after how long so many of the nodes that others have may be free that got of them more make a majority; 0: that is not
// known. The mutex is held.
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
	return time.Duration(max(all[missing-1], 1)) * time.Millisecond // 0 is within this millisecond
}

// tooFew is the error of a claim that too few nodes have answered. Another owner may have the vote of one that is dead to this. The mutex is held.
func (c *claim) tooFew() error {
	errs, dead := make([]error, len(c.votes)), false
	for i := range c.votes {
		if v := &c.votes[i]; v.state == failed || v.state == unknown {
			errs[i] = v.err
		}
		dead = dead || c.votes[i].dead
	}
	if c.b.majority(errs) == nil { // else it is certain without the others
		for i := range c.votes {
			if c.votes[i].state == asked {
				errs[i] = errSilent
			}
		}
	}
	if err := c.b.majority(errs); err != nil && !dead {
		return err
	}
	return fmt.Errorf("%w: %s", driver.ErrUnknown, c.b.missing(errs))
}
