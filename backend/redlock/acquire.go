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

	// stubborn is for how long at most the first among claims that have split the votes asks for the votes of the others, which give
	// them back.
	stubborn    = 500 * time.Millisecond
	laterRounds = 50 * time.Millisecond // how long a node is waited for then
	firstPoll   = 10 * time.Millisecond // after a split vote; longer with each in a row
)

// acquire makes one claim. What the nodes granted is given back unless it returns nil.
func (c *claim) acquire(ctx context.Context, queue bool) error {
	sent := time.Now()
	timeout := c.nodeTimeout()
	flag, inQueue := "0", strconv.FormatInt(c.place, 10)
	if queue {
		flag = "1"
	}
	var begun time.Time // of the struggle for votes
	var split error     // what the round before said, in it
	c.mu.Lock()
	splits := c.splits // before this attempt
	c.mu.Unlock()
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		c.ask(context.WithoutCancel(ctx), []any{c.value, c.ttlMS(), flag, inQueue})
		limit := timeout
		if !begun.IsZero() {
			limit = min(timeout, laterRounds)
		}
		err := c.awaitVotes(ctx, limit)
		c.mu.Lock()
		if c.count(granted) >= c.b.quorum && !c.gaveUp && err == nil {
			until := sent.Add(c.Req.TTL - drift(c.Req.TTL))
			if time.Now().Before(until) {
				c.accept(until)
				c.mu.Unlock()
				return nil
			}
			c.mu.Unlock()
			return c.giveBack(ctx, fmt.Errorf("%w: a majority of the nodes granted the lock, but too late to be of use", driver.ErrUnavailable), "")
		}
		v := c.verdict(err, splits+1)
		if hurried := limit < timeout && c.count(asked) > 0 && !c.gaveUp && err == nil; hurried && !errors.Is(v.err, driver.ErrHeld) {
			v = verdict{err: split, first: true} // all had answered before, and may do so in the next round
		}
		c.mu.Unlock()
		if begun.IsZero() {
			begun = time.Now()
		}
		split = v.err
		if v.first && time.Since(begun) < min(stubborn>>min(splits, 8), timeout) {
			select {
			case <-time.After(rand.N(pause)):
				continue
			case <-ctx.Done():
				v.err = interrupted(ctx.Err())
			}
		}
		place := ""
		if queue && errors.Is(v.err, driver.ErrHeld) {
			place = inQueue
		}
		return c.giveBack(ctx, v.err, place)
	}
}

// ask asks the nodes that have not granted the claim, all at once. ctx has no end.
func (c *claim) ask(ctx context.Context, argv []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	round := c.round
	for i := range c.votes {
		v := &c.votes[i]
		if c.gaveUp || v.state == asked || v.state == granted {
			continue
		}
		v.round, v.holder = round, ""
		if err := c.b.nodes[i].admit(); err != nil {
			v.failed(err)
			continue
		}
		v.state = asked
		c.inOrder(i, func() { c.claimAt(ctx, i, round, argv) })
	}
}

// claimAt asks node i for its vote, unless that is not wanted any more.
func (c *claim) claimAt(ctx context.Context, i int, round int32, argv []any) {
	v, n := &c.votes[i], c.b.nodes[i]
	c.mu.Lock()
	if v.round != round || v.state != asked || c.gaveUp || c.ended {
		c.mu.Unlock()
		return
	}
	var r redisscript.Reply
	if v.tainted {
		r.Err = fmt.Errorf("%w: a request to give back an earlier vote may still arrive", driver.ErrUnavailable)
	} else {
		v.flying = true
		c.mu.Unlock()
		r = n.runAdmitted(ctx, c.nodeTimeout(), redisscript.QuorumAcquire, c.keys[:], argv...)
		c.mu.Lock()
		v.flying = false
	}
	defer c.mu.Unlock()
	was := v.state
	v.answered(r)
	if v.state == held {
		c.heard = time.Now()
	}
	if v.round != round || was != asked { // it is being given back, or asked for anew
		v.state = was
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
func (v *vote) answered(r redisscript.Reply) {
	if r.Err != nil {
		v.failed(r.Err)
		return
	}
	status, ms, flag := int64(saysGranted), int64(0), int64(0) // the easy case replies with a number alone
	if list, ok := r.Value.([]any); ok {
		status = -1
		if len(list) > 0 {
			status, _ = list[0].(int64)
		}
		if len(list) > 2 {
			ms, _ = list[1].(int64)
			flag, _ = list[2].(int64)
		}
		if len(list) > 3 {
			v.holder, _ = list[3].(string)
		}
	}
	v.ms, v.flag, v.has = ms, flag > 0, status == saysGranted
	switch status {
	case saysGranted:
		v.state = granted
	case saysHeld:
		v.state = held
	case saysGone:
		v.state = gone
	default:
		v.failed(fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value))
	}
}

// failed notes that a claim failed.
func (v *vote) failed(err error) {
	v.state, v.err = failed, err
	if !certain(err) {
		v.state, v.has, v.loose = unknown, true, true
	}
}

// awaitVotes waits for a majority, or the certainty that there is none. Where a majority has answered and others have votes, it does not wait much
// longer for the silent nodes than it took those: a claim that holds its votes until a hung node's time is over outlasts the patience of the one
// that they are to go to, and nobody wins.
func (c *claim) awaitVotes(ctx context.Context, limit time.Duration) error {
	begun, q := time.Now(), c.b.quorum
	return c.await(ctx, func() time.Duration {
		got, others, open := c.count(granted), c.count(held), c.count(asked)
		switch {
		case c.gaveUp, open == 0, got >= q, got+open < q && (got+others >= q || got+others+open < q):
			return 0
		}
		left := limit - time.Since(begun)
		if others > 0 && got+others >= q {
			left = min(left, max(laterRounds, c.heard.Sub(begun))-time.Since(c.heard))
		}
		return left
	})
}

// accept makes the claim a lease. The mutex is held.
func (c *claim) accept(until time.Time) {
	contended := false
	for i := range c.votes {
		contended = contended || c.votes[i].state == granted && c.votes[i].flag
	}
	c.grant = driver.Grant{Until: until, Contended: contended}
	c.until, c.splits = until, 0
}

// verdict is what is to be made of votes without a majority.
type verdict struct {
	err   error
	first bool // nobody has a majority, and none of those who have votes comes before this claim
}

// verdict judges. The mutex is held. ended is the error of the context, if that ended, and splits how many attempts in a row nobody won, if
// nobody wins this one.
func (c *claim) verdict(ended error, splits int32) verdict {
	q := c.b.quorum
	got, others := c.count(granted), c.count(held)
	switch {
	case c.gaveUp:
		return verdict{err: fmt.Errorf("%w: this claim was abandoned meanwhile", driver.ErrUnknown)}
	case ended != nil:
		return verdict{err: interrupted(ended)}
	case got+others < q && c.count(gone) > 0:
		return verdict{err: fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused)}
	case got+others < q:
		return verdict{err: c.tooFew()}
	}
	votes := make(map[string]int)
	first, foreign := true, false
	h := &driver.HeldError{ExpiresIn: c.freeIn(got), Poll: pollUnheard}
	most := 0
	for i := range c.votes {
		v := &c.votes[i]
		if v.state != held {
			continue
		}
		votes[v.holder]++
		owner, other := redisscript.Owner(v.holder)
		most = max(most, votes[v.holder])
		first = first && !other && v.holder > c.value
		foreign = foreign || v.flag
		if votes[v.holder] >= q && v.holder != "" {
			h.Holder.Owner, h.Holder.Foreign = owner, other
		}
	}
	switch {
	case foreign:
		h.Poll = pollForeign
	case most < q && votes[""] == 0: // nobody has it, perhaps
		c.splits = splits
		h.Poll = min(firstPoll<<min(c.splits, 8), pollUnheard)
		h.Poll = time.Millisecond + rand.N(h.Poll)
		return verdict{err: h, first: first}
	case c.b.claims.Heard(c.Req.Owner):
		h.Poll = pollHeard
	}
	c.splits = 0
	return verdict{err: h}
}

// freeIn is after how long so many of the nodes that others have may be free that got of them more make a majority; 0: that is not
// known. The mutex is held.
func (c *claim) freeIn(got int) time.Duration {
	var all []int64
	for i := range c.votes {
		if v := &c.votes[i]; v.state == held && v.ms >= 0 { // else it has no TTL
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

// interrupted is the error of a call whose context ended with cause.
func interrupted(cause error) error {
	return fmt.Errorf("%w: waiting for the nodes: %w", driver.ErrUnknown, cause)
}

// tooFew is the error of a claim that too few nodes have answered. The mutex is held.
func (c *claim) tooFew() error {
	q, class := c.b.quorum, driver.ErrUnavailable
	refused, tainted := 0, false
	var why, silent []failure
	for i := range c.votes {
		v, n := &c.votes[i], c.b.nodes[i]
		if v.state == failed && isRefused(v.err) {
			refused++
		}
		tainted = tainted || v.tainted
		switch v.state {
		case failed, unknown:
			why = append(why, n.failure(v.err))
		case asked:
			silent = append(silent, failure{n.addr, noAnswer})
		}
	}
	open, others := c.count(unknown)+c.count(asked), len(c.votes)-c.count(failed)
	switch {
	case open >= q, // they may all have granted it
		others >= q && others-open < q: // what they may have granted keeps everybody else out
		class = driver.ErrUnknown
	case refused >= q:
		class = driver.ErrRefused
	case tainted: // another owner, of whom nothing is on its way, may have the node's vote
		class = driver.ErrUnknown
	}
	if len(why) < q { // else it is certain without the others
		why = append(why, silent...)
	}
	return fmt.Errorf("%w: %s", class, c.b.missing(why))
}
