package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// A request to undo a claim that a node does not answer is repeated after firstAgain, then after twice as long each time, up to mostAgain,
// until the TTL has passed.
const (
	firstAgain = 20 * time.Millisecond
	mostAgain  = 500 * time.Millisecond
)

// undo ends what the nodes have of a claim: after an attempt that failed, or for Release or Abandon. The claim's mutex guards it.
type undo struct {
	c      *claim
	script *redisscript.Script
	arg    any  // of script, after the claim's value
	final  bool // for Release or Abandon
	round  int32
	begun  time.Time

	errs    []error // by node, of its first reply or its success; errSilent: no answer
	freed   int     // nodes that freed the lock
	absent  int     // nodes that had nothing of the claim
	cleared int     // nodes that have nothing of it now, or never had
}

// newUndo begins a round of requests. The mutex is held.
func (c *claim) newUndo(script *redisscript.Script, arg any, final bool) *undo {
	c.round++
	return &undo{c: c, script: script, arg: arg, final: final, round: c.round, begun: time.Now(), errs: make([]error, len(c.votes))}
}

// at has node i undo its part, and repeats that until the node does it, the TTL has passed, or a later round concerns the vote.
func (u *undo) at(ctx context.Context, i int, pause time.Duration) {
	c, n, first := u.c, u.c.b.nodes[i], pause == firstAgain
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()
	v := &c.votes[i]
	switch {
	case v.round != u.round:
		return
	case !u.final && !v.mayHold: // the node refused the claim
		u.errs[i] = nil
		return
	}
	script, arg := u.script, u.arg
	if u.final && (v.strayClaim || v.inFlight) { // the node refuses the claim if that arrives later
		script, arg = redisscript.Abandon, redisclaims.TombstoneTTL.Milliseconds()
	}
	v.undoing = true
	c.mu.Unlock()
	r := n.run(ctx, c.undoTimeout(), script, c.keys, c.value, arg)
	c.mu.Lock()
	v.undoing, v.mayHold = false, v.mayHold && r.Err != nil
	v.strayUndo = v.strayUndo || r.Err != nil && !certain(r.Err)
	if first || r.Err == nil {
		u.errs[i] = r.Err
	}
	certainly := first && script == redisscript.QuorumRelease // otherwise an earlier request may have freed it
	switch {
	case r.Err != nil:
		if time.Since(u.begun) < c.Req.TTL && !n.pipe.Closed() {
			time.AfterFunc(pause, func() { n.inOrder(c.Req.Name, func() { u.at(ctx, i, min(2*pause, mostAgain)) }) })
		}
		return
	case certainly && r.Value == int64(1):
		u.freed++
	case certainly:
		u.absent++
	}
	u.cleared++
}

// await waits until the outcome is certain or the silent nodes time out, or returns ctx's error when ctx ends. The mutex is held.
func (u *undo) await(ctx context.Context, timeout time.Duration) error {
	return u.c.await(ctx, func() time.Duration {
		if u.decided() || !slices.Contains(u.errs, errSilent) {
			return 0
		}
		return u.c.left(timeout, u.begun, func(i int) bool { return u.errs[i] == errSilent })
	})
}

// decided reports whether the silent nodes cannot change the outcome. The mutex is held.
func (u *undo) decided() bool {
	q := u.c.b.quorum
	switch {
	case !u.final:
		return u.c.ended || !u.c.blocks()
	case u.script == redisscript.Abandon:
		return u.cleared >= q
	}
	return u.freed >= q || u.absent >= q
}

// releaseVotes releases what the nodes have of the claim. It returns why, or an error if the release may have failed. place is the claim's new
// place in the queues; "": none. The mutex is held.
func (c *claim) releaseVotes(ctx context.Context, why error, place any) error {
	u := c.newUndo(redisscript.QuorumRelease, place, false)
	for i, n := range c.b.nodes {
		v := &c.votes[i]
		if c.ended || v.state != asked && !v.mayHold { // free undoes it, or there is nothing to undo
			continue
		}
		v.round, v.state, u.errs[i] = u.round, none, errSilent
		n.inOrder(c.Req.Name, func() { u.at(context.WithoutCancel(ctx), i, firstAgain) })
	}
	ended := u.await(ctx, c.nodeTimeout())
	switch {
	case ended != nil:
		return interrupted(ended)
	case c.blocks():
		return fmt.Errorf("%w: %s, and releasing it failed on some nodes", driver.ErrUnknown, reason(why))
	}
	return why
}

// blocks reports whether the nodes with something of the claim may be a majority, or keep all other claims from one. The mutex is held.
func (c *claim) blocks() bool {
	open, able := 0, 0
	for i := range c.votes {
		v := &c.votes[i]
		if v.open() {
			open++
		}
		if v.open() || v.state != failed {
			able++
		}
	}
	return open >= c.b.quorum || able >= c.b.quorum && able-open < c.b.quorum
}

// free asks all nodes to free the claim with script and arg. It waits until enough have, or until they time out. Where a claim request may still
// arrive, the node refuses it for redisclaims.TombstoneTTL. The mutex is held.
func (c *claim) free(ctx context.Context, script *redisscript.Script, arg any) (*undo, error) {
	c.ended = true
	f, abandon := c.newUndo(script, arg, true), script == redisscript.Abandon
	for i, n := range c.b.nodes {
		v := &c.votes[i]
		if v.state == failed && !v.open() && !(abandon && v.mayWait) {
			f.cleared++
			continue
		}
		v.round = f.round // this undo supersedes earlier ones
		f.errs[i] = errSilent
		ask := func() { f.at(context.WithoutCancel(ctx), i, firstAgain) }
		if abandon && v.inFlight {
			go ask()
		} else {
			n.inOrder(c.Req.Name, ask)
		}
	}
	ended := f.await(ctx, c.undoTimeout())
	if f.cleared >= c.b.quorum {
		c.b.claims.Leave(c)
		return f, nil
	}
	if ended != nil {
		return f, fmt.Errorf("%w: %s: %w", driver.ErrUnknown, c.b.shortage(f.errs), ended)
	}
	for _, err := range f.errs {
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			return f, fmt.Errorf("%w: %s", driver.ErrUnknown, c.b.shortage(f.errs))
		}
	}
	return f, fmt.Errorf("%w: %s", driver.ErrUnavailable, c.b.shortage(f.errs))
}

// Release implements driver.Lease: one request to every node at once. It returns once a majority has freed the lock. The others free it in
// the background, or by expiry.
func (c *claim) Release(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.b.quorum
	f, err := c.free(ctx, redisscript.QuorumRelease, "")
	if err == nil && (f.absent >= q || f.freed < q && !time.Now().Before(c.until)) {
		err = c.lost()
	}
	return err
}

// Abandon implements driver.Backend. It returns nil once a majority of the nodes has nothing of the claim and, if it may still arrive, refuses it
// for a minute. Then no majority can grant it. The other nodes follow in the background; on an unreachable one the key expires.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	c, unresolved, _ := b.claims.Find(req)
	c.mu.Lock()
	defer c.mu.Unlock()
	if unresolved && c.round == 0 { // another backend may have made it
		for i := range c.votes {
			c.votes[i].strayClaim = true
		}
	}
	f, err := c.free(ctx, redisscript.Abandon, 0)
	if refused := b.majority(f.errs); err != nil && errors.Is(refused, driver.ErrRefused) {
		return refused
	}
	return err
}
