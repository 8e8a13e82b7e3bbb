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

// firstAgain is after what time a node is asked again to give back what it may have granted; after twice as long each time, up to the TTL.
const firstAgain = 20 * time.Millisecond

// giveBack gives up what the nodes have of the claim, and then returns why, or that this may have failed. place is its place in the
// queues from now on; "": none.
func (c *claim) giveBack(ctx context.Context, why error, place string) error {
	lasting, begun := context.WithoutCancel(ctx), time.Now()
	c.mu.Lock()
	if c.gaveUp { // Abandon sees to it
		c.mu.Unlock()
		return why
	}
	var waited []*vote
	for i := range c.votes {
		v := &c.votes[i]
		switch v.state {
		case granted, unknown: // where its answer was lost, nobody else will ask for what it may have granted
			waited = append(waited, v)
		case asked: // its answer is not waited for: what it says is given back then
		default:
			continue
		}
		v.state = leaving
		round := v.round
		c.inOrder(i, func() { c.giveBackAt(lasting, i, round, place, firstAgain) })
	}
	c.mu.Unlock()
	open := 0 // how many nodes have something of the claim, or may have
	err := c.await(ctx, func() time.Duration {
		busy := false
		open = 0
		for i := range c.votes {
			v := &c.votes[i]
			busy = busy || v.flying || v.state == leaving
			if v.has || v.flying {
				open++
			}
		}
		if !slices.ContainsFunc(waited, func(v *vote) bool { return v.state == leaving }) && !(busy && open >= c.b.quorum) {
			return 0
		}
		return c.nodeTimeout() - time.Since(begun)
	})
	switch {
	case err != nil:
		return interrupted(err)
	case open >= c.b.quorum:
		return fmt.Errorf("%w: %s, and it could not be given back everywhere", driver.ErrUnknown, plain(why))
	}
	return why
}

// giveBackAt asks node i to give back what it has granted, or may have, in round, unless the claim has been made anew by then.
func (c *claim) giveBackAt(ctx context.Context, i int, round int32, place string, pause time.Duration) {
	v := &c.votes[i]
	c.mu.Lock()
	wanted := v.round == round && !c.gaveUp
	if wanted && !v.has {
		wanted, v.state = false, none
		c.tell()
	}
	c.mu.Unlock()
	if !wanted {
		return
	}
	r := c.b.nodes[i].run(ctx, c.nodeTimeout(), redisscript.QuorumRelease, c.keys[:], c.value, place)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.tell()
	v.has = r.Err != nil
	v.tainted = v.tainted || r.Err != nil && !certain(r.Err)
	switch {
	case v.round != round:
	case r.Err == nil:
		v.state = none
	default:
		v.state, v.err = unknown, r.Err
		c.again(i, pause, func() { c.giveBackAt(ctx, i, round, "", 2*pause) })
	}
}

// again calls f in order after pause, unless what node i has of the claim is gone by then.
func (c *claim) again(i int, pause time.Duration, f func()) {
	if pause <= c.Req.TTL {
		time.AfterFunc(pause, func() { c.inOrder(i, f) })
	}
}

// freeing is a release, or Abandon. The claim's mutex guards it.
type freeing struct {
	*claim
	abandon bool    // it is Abandon
	unheard bool    // of a claim that this backend knows nothing of
	errs    []error // by node; errSilent: no answer
	freed   int     // nodes that have freed the lock
	notOurs int     // nodes that had nothing of the claim
	over    int     // nodes that have nothing of it now, those two included
	spared  int     // nodes that were not asked: they certainly have nothing of it
	pending int     // nodes that are waited for
}

var errSilent = fmt.Errorf("%w: %s", driver.ErrUnknown, noAnswer)

// free asks all nodes to free the claim, and waits until enough says that they have, or until they had their time.
func (f *freeing) free(ctx context.Context, enough func() bool) error {
	lasting, begun := context.WithoutCancel(ctx), time.Now()
	f.mu.Lock()
	f.errs = make([]error, len(f.votes))
	for i := range f.votes {
		v := &f.votes[i]
		if v.state == failed && !v.has && !f.unheard {
			f.spared++
			continue
		}
		f.errs[i] = errSilent
		f.pending++
		ask := func() { f.freeAt(lasting, i, firstAgain) }
		if f.abandon && v.flying { // the node will refuse it
			go ask()
		} else {
			f.inOrder(i, ask)
		}
	}
	f.mu.Unlock()
	ended := f.await(ctx, func() time.Duration {
		if f.pending == 0 || enough() {
			return 0
		}
		return f.nodeTimeout() - time.Since(begun)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outcome(ended)
}

// freeAt asks node i. Where a request that claims may still arrive, the node remembers that it is to refuse it. A node that does not answer is asked
// again in the background; the answer to the second request is waited for too, but does not tell what was there before the first.
func (f *freeing) freeAt(ctx context.Context, i int, pause time.Duration) {
	v, script, arg := &f.votes[i], redisscript.QuorumRelease, any("")
	f.mu.Lock()
	switch {
	case v.loose, v.flying, f.unheard:
		script, arg = redisscript.Abandon, late.Milliseconds()
	case f.abandon:
		script, arg = redisscript.Abandon, 0
	}
	f.mu.Unlock()
	r := f.b.nodes[i].run(ctx, f.nodeTimeout(), script, f.keys[:], f.value, arg)
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.tell()
	first := pause == firstAgain
	if f.errs[i] = r.Err; r.Err != nil {
		f.claim.again(i, pause, func() { f.freeAt(ctx, i, 2*pause) })
	} else {
		f.over++
		switch {
		case !first || script == redisscript.Abandon:
		case r.Value == int64(1):
			f.freed++
		default:
			f.notOurs++
		}
	}
	if first && r.Err == nil || pause == 2*firstAgain {
		f.pending--
	}
}

// outcome says whether a majority has confirmed. The mutex is held. ended is the error of the context, if that ended.
func (f *freeing) outcome(ended error) error {
	if f.over+f.spared >= f.b.quorum {
		f.b.claims.Leave(f.claim)
		return nil
	}
	class := driver.ErrUnavailable
	var why []failure
	for i, err := range f.errs {
		if err != nil {
			why = append(why, f.b.nodes[i].failure(err))
			if !errors.Is(err, driver.ErrUnavailable) {
				class = driver.ErrUnknown
			}
		}
	}
	if ended != nil {
		return fmt.Errorf("%w: %s: %w", driver.ErrUnknown, f.b.missing(why), ended)
	}
	return fmt.Errorf("%w: %s", class, f.b.missing(why))
}

// Release implements driver.Lease: one request to every node at once. It returns when a majority has freed the lock; the others do so in
// the background, or when the TTL has passed.
func (c *claim) Release(ctx context.Context) error {
	q, f := c.b.quorum, &freeing{claim: c}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	err := f.free(ctx, func() bool { return f.freed >= q || f.notOurs >= q })
	c.mu.Lock()
	defer c.mu.Unlock()
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
	c.gaveUp = true
	f := &freeing{claim: c, abandon: true, unheard: unresolved && c.round == 0}
	c.mu.Unlock()
	return f.free(ctx, func() bool { return f.over >= b.quorum })
}
