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
	// When a waiter looks again although nobody told it to.
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
	timeout := c.b.o.nodeTimeout(c.Req.TTL)
	flag := "0"
	if queue {
		flag = "1"
	}
	inQueue := strconv.FormatInt(c.place, 10)
	argv := []string{c.value, c.ttlMS(), flag, inQueue}
	var begun time.Time // of the struggle for votes
	var split error     // what the round before said, in it
	c.mu.Lock()
	splits := c.splits // before this attempt
	c.mu.Unlock()
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		c.ask(argv, sent, timeout)
		limit := timeout
		if !begun.IsZero() {
			limit = min(timeout, laterRounds)
		}
		err := c.awaitVotes(ctx, limit)
		c.mu.Lock()
		if c.count(seatGranted) >= c.b.quorum && !c.gaveUp && err == nil {
			until := sent.Add(c.Req.TTL - drift(c.Req.TTL))
			if time.Now().Before(until) {
				c.accept(until)
				c.mu.Unlock()
				return nil
			}
			c.mu.Unlock()
			return c.giveBack(ctx, fmt.Errorf("%w: a majority of the nodes granted the lock, but too late to be of use", driver.ErrUnavailable),
				timeout, "")
		}
		v := c.verdict(err, splits+1)
		if hurried := limit < timeout && c.count(seatAsked) > 0 && !c.gaveUp && err == nil; hurried && !errors.Is(v.err, driver.ErrHeld) {
			v = verdict{err: split} // all had answered before: that some take longer than a later round lasts is no failure of theirs
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
				v.err = c.interrupted(ctx.Err())
			}
		}
		place := ""
		if queue && errors.Is(v.err, driver.ErrHeld) {
			place = inQueue
		}
		return c.giveBack(ctx, v.err, timeout, place)
	}
}

// ask asks the nodes that have not granted the claim. One that was to give back what it granted earlier, and has not said that it did, is
// asked again, behind that; one that may be told so at any time is not asked, since its vote would not last.
func (c *claim) ask(argv []string, now time.Time, timeout time.Duration) {
	c.mu.Lock()
	c.begin(claiming)
	c.round++
	round := c.round
	for i := range c.seats {
		switch s := &c.seats[i]; {
		case c.gaveUp, s.state == seatAsked, s.state == seatGranted && s.backs == 0:
		case s.tainted:
			s.state, s.err = seatFailed, c.b.unsafe(i)
		default:
			s.state, s.round, s.holder, s.err = seatAsked, round, "", nil
		}
	}
	c.mu.Unlock()
	for i, n := range c.b.nodes {
		c.mu.Lock()
		s := &c.seats[i]
		if s.round != round || c.gaveUp {
			c.mu.Unlock()
			continue
		}
		s.flying++
		c.mu.Unlock()
		gen := n.line.Call(redisscript.QuorumAcquire, c.keys[:], argv, redisscript.Terms{Patience: timeout, Now: now}, c, callClaim.number(i, round))
		if gen != 0 { // else nothing was sent
			c.mu.Lock()
			s.gen = gen
			c.mu.Unlock()
		}
	}
	c.mu.Lock()
	c.look()
	c.mu.Unlock()
}

// accept makes the claim a lease. The mutex is held.
func (c *claim) accept(until time.Time) {
	contended := false
	for i := range c.seats {
		contended = contended || c.seats[i].state == seatGranted && c.seats[i].flag
	}
	c.contended, c.from = contended, until
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
	got, others := c.count(seatGranted), c.count(seatHeld)
	switch {
	case c.gaveUp:
		return verdict{err: fmt.Errorf("%w: this claim was abandoned meanwhile", driver.ErrUnknown)}
	case ended != nil:
		return verdict{err: c.interrupted(ended)}
	case got+others < q && c.count(seatGone) > 0:
		return verdict{err: fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused)}
	case got+others < q:
		return verdict{err: c.tooFew()}
	}
	votes := make(map[string]int)
	first, foreign := true, false
	for i := range c.seats {
		if s := &c.seats[i]; s.state == seatHeld {
			votes[s.holder]++
			_, other := redisscript.Owner(s.holder)
			first = first && !other && s.holder > c.value
			foreign = foreign || s.flag
			first = first && votes[s.holder] < q
		}
	}
	most := 0
	for _, n := range votes {
		most = max(most, n)
	}
	h := &driver.HeldError{ExpiresIn: c.freeIn(got), Poll: pollUnheard}
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
	for i := range c.seats {
		if s := &c.seats[i]; s.state == seatHeld && s.ms >= 0 { // else it has no TTL
			all = append(all, s.ms)
		}
	}
	missing := max(c.b.quorum-got, 1)
	if len(all) < missing {
		return 0
	}
	slices.Sort(all)
	return time.Duration(max(all[missing-1], 1)) * time.Millisecond // 0 is within this millisecond
}

// interrupted is the error of a claim whose context ended with cause. The mutex need not be held.
func (c *claim) interrupted(cause error) error {
	return fmt.Errorf("%w: waiting for the nodes: %w", driver.ErrUnknown, cause)
}

// tooFew is the error of a claim that too few nodes have answered. The mutex is held.
func (c *claim) tooFew() error {
	class := driver.ErrUnavailable
	refused, tainted := 0, false
	for i := range c.seats {
		s := &c.seats[i]
		if s.state == seatFailed && isRefused(s.err) {
			refused++
		}
		tainted = tainted || s.tainted
	}
	open, others := c.count(seatUnknown)+c.count(seatAsked), len(c.seats)-c.count(seatFailed)
	switch {
	case open >= c.b.quorum, // they may all have granted it
		others >= c.b.quorum && others-open < c.b.quorum: // what they may have granted keeps everybody else out
		class = driver.ErrUnknown
	case refused >= c.b.quorum:
		class = driver.ErrRefused
	case tainted: // another owner, of whom nothing is on its way, may have the node's vote
		class = driver.ErrUnknown
	}
	return fmt.Errorf("%w: %s", class, c.whatFailed())
}

// whatFailed says which nodes do not serve, and why. The mutex is held.
func (c *claim) whatFailed() string {
	var why, late []failure
	for i := range c.seats {
		switch s := &c.seats[i]; s.state {
		case seatFailed, seatUnknown:
			why = append(why, c.b.nodes[i].failed(s.err))
		case seatAsked:
			late = append(late, c.b.nodes[i].slow())
		}
	}
	if len(why) < c.b.quorum { // else it is certain without the others
		why = append(why, late...)
	}
	return c.b.missing(why)
}

// giveBack gives up what the nodes have of the claim, and then returns why, or that this may have failed. place is its place in the
// queues from now on; "": none.
func (c *claim) giveBack(ctx context.Context, why error, timeout time.Duration, place string) error {
	c.mu.Lock()
	c.begin(givingBack)
	gaveUp := c.gaveUp
	asked := make([]int, 0, len(c.seats))
	waits := false
	for i := range c.seats {
		switch s := &c.seats[i]; s.state {
		case seatGranted, seatUnknown: // where its answer was lost, nobody else will ask for what it may have granted
			s.tries, waits = 0, true
			asked = append(asked, i)
		case seatAsked: // the request that takes it back follows on the same connection, and is not waited for
			s.state = seatNone
			asked = append(asked, i)
		}
	}
	if gaveUp {
		c.mu.Unlock()
		return why // Abandon sees to it
	}
	rounds, terms := make([]int32, len(asked)), make([]redisscript.Terms, len(asked))
	for n, i := range asked {
		rounds[n] = c.seats[i].round
		c.seats[i].backs++
		if c.seats[i].flying > 0 {
			terms[n].Generation = c.seats[i].gen
		}
	}
	c.mu.Unlock()
	argv := []string{c.value, place}
	for n, i := range asked {
		c.b.nodes[i].line.Call(redisscript.QuorumRelease, c.keys[:], argv, terms[n], c, callGiveBack.number(i, rounds[n]))
	}
	if !waits {
		return why
	}
	err := c.await(ctx, timeout)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		return c.interrupted(err)
	case c.countOpen() >= c.b.quorum:
		return fmt.Errorf("%w: %s, and it could not be given back everywhere", driver.ErrUnknown, plain(why))
	}
	return why
}
