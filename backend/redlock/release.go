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

// undo is a request to undo a node's part of a claim: a script and its argument after the claim's value. A nil script: no request.
type undo struct {
	script *redisscript.Script
	arg    any
}

// undoAt returns a function that sends node i the undo that request returns at that time. onReply gets the first reply, and the first without
// an error. Both are called with the mutex held.
func (c *claim) undoAt(ctx context.Context, i int, request func(*vote) undo, onReply func(undo, redisscript.Reply)) (ask func()) {
	v, n, begun, pause := &c.votes[i], c.b.nodes[i], time.Now(), firstAgain
	ask = func() {
		c.mu.Lock()
		u := request(v)
		v.undoing = u.script != nil
		c.mu.Unlock()
		if u.script == nil {
			return
		}
		r := n.run(ctx, c.undoTimeout(), u.script, c.keys, c.value, u.arg)
		c.mu.Lock()
		defer c.mu.Unlock()
		defer c.signal()
		v.undoing, v.mayHold = false, v.mayHold && r.Err != nil
		v.strayUndo = v.strayUndo || r.Err != nil && !certain(r.Err)
		if r.Err == nil || pause == firstAgain {
			onReply(u, r)
		}
		if r.Err != nil && time.Since(begun) < c.Req.TTL && !n.pipe.Closed() {
			time.AfterFunc(pause, func() { n.inOrder(c.Req.Name, ask) })
			pause = min(2*pause, mostAgain)
		}
	}
	return ask
}

// releaseVotes releases what the nodes have of the claim. It returns why, or an error if the release may have failed. place is the claim's new
// place in the queues; "": none. The mutex is held.
func (c *claim) releaseVotes(ctx context.Context, why error, place any) error {
	begun := time.Now()
	for i := range c.votes {
		v := &c.votes[i]
		if c.ended || v.state != asked && !v.mayHold { // free undoes it, or there is nothing to undo
			continue
		}
		v.state = releasing
		round := v.round
		superseded := func() bool { return v.round != round || c.ended } // claimed again, or undone by free
		request := func(v *vote) undo {
			switch {
			case superseded():
			case !v.mayHold:
				v.state = none
				c.signal()
			default:
				return undo{redisscript.QuorumRelease, place}
			}
			return undo{}
		}
		onReply := func(_ undo, r redisscript.Reply) {
			switch {
			case superseded():
			case r.Err == nil:
				v.state = none
			default:
				v.state, v.err = unknown, r.Err
			}
		}
		c.b.nodes[i].inOrder(c.Req.Name, c.undoAt(context.WithoutCancel(ctx), i, request, onReply))
	}
	ended := c.await(ctx, func() time.Duration {
		if c.ended || c.count(releasing) == 0 || !c.blocks() {
			return 0
		}
		return c.left(c.nodeTimeout(), begun, func(i int) bool { return c.votes[i].state == releasing })
	})
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

// undone has the nodes' replies to a release or to Abandon. The claim's mutex guards it.
type undone struct {
	errs    []error // by node; errSilent: no answer
	freed   int     // nodes that freed the lock
	absent  int     // nodes that had nothing of the claim
	cleared int     // nodes that have nothing of it now, or never had
}

// free asks all nodes to free the claim. It waits until enough have, or until they time out. Where a claim request may still arrive, the node
// refuses it for redisclaims.TombstoneTTL. The mutex is held.
func (c *claim) free(ctx context.Context, abandon bool, enough func(*undone) bool) (*undone, error) {
	begun, f := time.Now(), &undone{errs: make([]error, len(c.votes))}
	c.ended = true
	c.frees++
	turn := c.frees
	for i := range c.votes {
		v := &c.votes[i]
		if v.state == failed && !v.open() && !(abandon && v.mayWait) {
			f.cleared++
			continue
		}
		f.errs[i] = errSilent
		first := true
		request := func(v *vote) undo {
			switch {
			case !first && turn != c.frees:
				return undo{}
			case v.strayClaim, v.inFlight:
				return undo{redisscript.Abandon, redisclaims.TombstoneTTL.Milliseconds()}
			case abandon:
				return undo{redisscript.Abandon, 0}
			}
			return undo{redisscript.QuorumRelease, ""}
		}
		ask := c.undoAt(context.WithoutCancel(ctx), i, request, func(u undo, r redisscript.Reply) {
			certainly := first && u.script == redisscript.QuorumRelease // otherwise an earlier request may have freed it
			if f.errs[i] = r.Err; r.Err == nil {
				f.cleared++
				if certainly && r.Value == int64(1) {
					f.freed++
				} else if certainly {
					f.absent++
				}
			}
			first = false
		})
		if abandon && v.inFlight { // the node will refuse the claim if that arrives later
			go ask()
		} else {
			c.b.nodes[i].inOrder(c.Req.Name, ask)
		}
	}
	ended := c.await(ctx, func() time.Duration {
		if !slices.Contains(f.errs, errSilent) || enough(f) {
			return 0
		}
		return c.left(c.undoTimeout(), begun, func(i int) bool { return f.errs[i] == errSilent })
	})
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
	f, err := c.free(ctx, false, func(f *undone) bool { return f.freed >= q || f.absent >= q })
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
	f, err := c.free(ctx, true, func(f *undone) bool { return f.cleared >= b.quorum })
	if refused := b.majority(f.errs); err != nil && errors.Is(refused, driver.ErrRefused) {
		return refused
	}
	return err
}
