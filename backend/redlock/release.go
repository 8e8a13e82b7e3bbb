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
	c     *claim
	place any // the claim's new place in the queues; "": none
	round int32
	begun time.Time

	errs   []error // by node, of its first reply or its success; errSilent: no answer; nil: it has nothing of the claim now, or never had
	freed  int     // nodes that freed the lock
	absent int     // nodes that had nothing of the claim
}

// newUndo begins a round of requests. The mutex is held.
func (c *claim) newUndo(place any) *undo {
	c.round++
	return &undo{c: c, place: place, round: c.round, begun: time.Now(), errs: make([]error, len(c.votes))}
}

// start has node i undo its part: now, or after earlier requests for the name. The mutex is held.
func (u *undo) start(ctx context.Context, i int, now bool) {
	ctx = context.WithoutCancel(ctx)
	v := &u.c.votes[i]
	v.round, v.state, u.errs[i] = u.round, none, errSilent // earlier undos end
	ask := func() { u.at(ctx, i, firstAgain) }
	if now {
		go ask()
	} else {
		u.c.b.nodes[i].inOrder(u.c.Req.Name, ask)
	}
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
	case !c.ended && !v.holds: // the node refused the claim
		u.errs[i] = nil
		return
	}
	script, arg := redisscript.QuorumRelease, u.place
	if c.ended && (v.claiming || v.strayClaim) { // the node refuses the claim if that arrives later
		script, arg = redisscript.Abandon, redisclaims.TombstoneTTL.Milliseconds()
	}
	v.undoing = true
	c.mu.Unlock()
	timeout := max(c.nodeTimeout(), maxNodeTimeout/2) // a short TTL needs no haste here
	r := n.run(ctx, timeout, script, c.keys, c.value, arg)
	c.mu.Lock()
	v.undoing, v.strayUndo = false, v.strayUndo || unsure(r.Err)
	v.holds = v.holds && r.Err != nil
	if first || r.Err == nil {
		u.errs[i] = r.Err
	}
	certainly := first && script == redisscript.QuorumRelease // otherwise an earlier request may have freed it
	switch {
	case r.Err != nil:
		if time.Since(u.begun) < c.Req.TTL && !n.pipe.Closed() {
			time.AfterFunc(pause, func() { n.inOrder(c.Req.Name, func() { u.at(ctx, i, min(2*pause, mostAgain)) }) })
		}
	case certainly && r.Value == int64(1):
		u.freed++
	case certainly:
		u.absent++
	}
}

// await waits until the silent nodes cannot change the outcome, which decided reports, until they time out, or until a later round begins. It
// returns ctx's error when ctx ends. The mutex is held.
func (u *undo) await(ctx context.Context, decided func() bool) error {
	return u.c.await(ctx, func() time.Duration {
		if u.round != u.c.round || decided() || !slices.Contains(u.errs, errSilent) {
			return 0
		}
		return forever
	})
}

// giveBack releases what the nodes have of a claim that did not get the lock. It returns why, or an error if the release may have failed. place is
// the claim's new place in the queues; "": none. The mutex is held.
func (c *claim) giveBack(ctx context.Context, why error, place any) error {
	if c.ended { // free undoes it
		return why
	}
	u := c.newUndo(place)
	for i := range c.votes {
		if v := c.votes[i]; v.state == asked || v.holds {
			u.start(ctx, i, false)
		}
	}
	ended := u.await(ctx, func() bool { return !u.blocks() })
	switch {
	case ended != nil:
		return interrupted(ended)
	case u.blocks():
		return fmt.Errorf("%w: %s, and releasing it failed on some nodes", driver.ErrUnknown, reason(why))
	}
	return why
}

// blocks reports whether other claims cannot get a majority as long as the nodes keep what they have of this claim. The mutex is held.
func (u *undo) blocks() bool {
	open, free := 0, 0
	for i, err := range u.errs {
		switch v := &u.c.votes[i]; {
		case err != nil || !u.c.ended && v.open():
			open++
		case v.state != failed:
			free++
		}
	}
	return free < u.c.b.quorum && free+open >= u.c.b.quorum
}

// free asks all nodes that may have something of the claim to free it. It waits until enough have, or until they time out. Where a claim
// request may still arrive, the node refuses it for redisclaims.TombstoneTTL. abandon: for Abandon, which does not wait for such a request.
func (c *claim) free(ctx context.Context, abandon bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	u, q := c.newUndo(""), c.b.quorum
	for i := range c.votes {
		v := &c.votes[i]
		v.round = u.round // nothing of an earlier round is sent
		if v.open() || v.waits && (abandon || v.state != failed) {
			u.start(ctx, i, abandon && v.claiming)
		} else {
			u.absent++
		}
	}
	ended := u.await(ctx, func() bool {
		if abandon {
			return c.b.majority(u.errs) == nil && !u.blocks()
		}
		return u.freed >= q || u.absent >= q
	})
	err := c.b.majority(u.errs)
	switch {
	case err == nil:
		c.b.claims.Leave(c)
		if !abandon && (u.absent >= q || u.freed < q && !time.Now().Before(c.until)) {
			err = c.lost()
		}
	case abandon && errors.Is(err, driver.ErrRefused):
	case ended != nil:
		err = fmt.Errorf("%w: %s: %w", driver.ErrUnknown, c.b.shortage(u.errs), ended)
	case slices.ContainsFunc(u.errs, func(err error) bool { return err != nil && !errors.Is(err, driver.ErrUnavailable) }):
		err = fmt.Errorf("%w: %s", driver.ErrUnknown, c.b.shortage(u.errs))
	}
	return err
}

// Release implements driver.Lease: one request to every node at once. It returns once a majority has freed the lock. The others free it in
// the background, or by expiry.
func (c *claim) Release(ctx context.Context) error { return c.free(ctx, false) }

// Abandon implements driver.Backend. It returns nil once a majority of the nodes has nothing of the claim and, if it may still arrive, refuses it
// for a minute. Then no majority can grant it. It also waits, until they time out, for nodes without which other claims have no majority. The
// others follow in the background; on an unreachable one the key expires.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	c, _, _ := b.claims.Find(req)
	c.mu.Lock()
	for i := range c.votes {
		c.votes[i].strayClaim = c.votes[i].strayClaim || c.round == 0 // another backend may have made it
	}
	c.mu.Unlock()
	return c.free(ctx, true)
}
