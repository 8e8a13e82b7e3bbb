package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// A node that does not answer a request to undo a claim is asked again after firstAgain, then after twice as long each time, up to mostAgain, until the TTL
// has passed.
const (
	firstAgain = 20 * time.Millisecond
	mostAgain  = 500 * time.Millisecond
)

// undo is a request to a node to undo what it has of a claim: a script, and what that is given beside the claim's value. No script: nothing is asked.
type undo struct {
	script *redisscript.Script
	arg    any
}

// undoAt makes a function that asks node i for what request returns at that time. said gets the node's first answer, and its first without an error. Both
// are called with the mutex held.
func (c *claim) undoAt(ctx context.Context, i int, request func(*vote) undo, said func(undo, redisscript.Reply)) (ask func()) {
	v, n, begun, pause := &c.votes[i], c.b.nodes[i], time.Now(), firstAgain
	ask = func() {
		c.mu.Lock()
		u := request(v)
		c.mu.Unlock()
		if u.script == nil {
			return
		}
		r := n.run(ctx, c.undoTimeout(), u.script, c.keys[:], c.value, u.arg)
		c.mu.Lock()
		defer c.mu.Unlock()
		defer c.tell()
		v.has = v.has && r.Err != nil
		v.dead = v.dead || r.Err != nil && !certain(r.Err)
		if r.Err == nil || pause == firstAgain {
			said(u, r)
		}
		if r.Err != nil && time.Since(begun) < c.Req.TTL {
			time.AfterFunc(pause, func() { n.inOrder(c.Req.Name, ask) })
			pause = min(2*pause, mostAgain)
		}
	}
	return ask
}

// giveBack gives up what the nodes have of the claim, and then returns why, or that this may have failed. place is its place in the
// queues from now on; "": none. The mutex is held.
func (c *claim) giveBack(ctx context.Context, why error, place string) error {
	begun := time.Now()
	for i := range c.votes {
		v := &c.votes[i]
		if c.ended || v.state != asked && !v.has { // Abandon sees to it, or there is nothing
			continue
		}
		v.state = leaving
		round := v.round
		anew := func() bool { return v.round != round || c.ended } // the claim was made again, or is undone otherwise
		request := func(v *vote) undo {
			switch {
			case anew():
			case !v.has:
				v.state = none
				c.tell()
			default:
				return undo{redisscript.QuorumRelease, place}
			}
			return undo{}
		}
		said := func(_ undo, r redisscript.Reply) {
			switch {
			case anew():
			case r.Err == nil:
				v.state = none
			default:
				v.state, v.err = unknown, r.Err
			}
		}
		c.b.nodes[i].inOrder(c.Req.Name, c.undoAt(context.WithoutCancel(ctx), i, request, said))
	}
	ended := c.await(ctx, func() time.Duration {
		if c.ended || c.count(leaving) == 0 || !c.blocks() {
			return 0
		}
		return c.left(c.nodeTimeout(), begun, func(i int) bool { return c.votes[i].state == leaving })
	})
	switch {
	case ended != nil:
		return interrupted(ended)
	case c.blocks():
		return fmt.Errorf("%w: %s, and it could not be given back everywhere", driver.ErrUnknown, reason(why))
	}
	return why
}

// blocks says whether what nodes have of the claim, or may have, may be a majority, or keeps everybody else from one. The mutex is held.
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

// freeing is what the nodes say to a release or to Abandon. The claim's mutex guards it.
type freeing struct {
	errs    []error // by node; errSilent: no answer
	freed   int     // nodes that have freed the lock
	notOurs int     // those that had nothing of the claim
	over    int     // those that have nothing of it now, or, not asked, never had
}

// free asks all nodes to free the claim, and waits until enough have, or until they had their time. A node remembers for a minute that it is to refuse a
// request that claims, where one may still arrive. unheard: this backend knows of no request, and there may be some all the same. The mutex is held.
func (c *claim) free(ctx context.Context, abandon, unheard bool, enough func(*freeing) bool) (*freeing, error) {
	begun, f := time.Now(), &freeing{errs: make([]error, len(c.votes))}
	c.ended = true
	request := func(v *vote) undo {
		switch {
		case v.loose, v.flying, unheard:
			return undo{redisscript.Abandon, late.Milliseconds()}
		case abandon:
			return undo{redisscript.Abandon, 0}
		}
		return undo{redisscript.QuorumRelease, ""}
	}
	for i := range c.votes {
		v := &c.votes[i]
		if v.state == failed && !v.open() && !unheard {
			f.over++
			continue
		}
		f.errs[i] = errSilent
		first := true
		ask := c.undoAt(context.WithoutCancel(ctx), i, request, func(u undo, r redisscript.Reply) {
			f.errs[i] = r.Err
			switch certainly := first && u.script == redisscript.QuorumRelease; { // else an earlier request may have freed it
			case r.Err != nil:
			case certainly && r.Value == int64(1):
				f.freed++
			case certainly:
				f.notOurs++
			}
			if r.Err == nil {
				f.over++
			}
			first = false
		})
		if abandon && v.flying { // the node will refuse what it gets later
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
	if f.over >= c.b.quorum {
		c.b.claims.Leave(c)
		return f, nil
	}
	if ended != nil {
		return f, fmt.Errorf("%w: %s: %w", driver.ErrUnknown, c.b.missing(f.errs), ended)
	}
	for _, err := range f.errs {
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			return f, fmt.Errorf("%w: %s", driver.ErrUnknown, c.b.missing(f.errs))
		}
	}
	return f, fmt.Errorf("%w: %s", driver.ErrUnavailable, c.b.missing(f.errs))
}

// Release implements driver.Lease: one request to every node at once. It returns when a majority has freed the lock; the others do so in
// the background, or when the TTL has passed.
func (c *claim) Release(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.b.quorum
	f, err := c.free(ctx, false, false, func(f *freeing) bool { return f.freed >= q || f.notOurs >= q })
	if err == nil && (f.notOurs >= q || f.freed < q && !time.Now().Before(c.until)) {
		err = c.lost()
	}
	return err
}

// Abandon implements driver.Backend. It returns nil when a majority of the nodes has nothing of the claim and, where it may still be on its way,
// remembers that for a minute: then no majority can grant it any more. The others do the same in the background; on one that
// cannot be reached its key ends with its TTL.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	m, unresolved := b.claims.Unresolved(req)
	c := m.(*claim)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.free(ctx, true, unresolved && c.round == 0, func(f *freeing) bool { return f.over >= b.quorum })
	return err
}
