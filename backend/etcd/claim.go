package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// claim is what this backend knows of one owner id: a claim that is being made or waits, and then the lease.
type claim struct {
	b      *Backend
	req    driver.Request
	within string // what the keys of all claims on the name, or on a permit of it, begin with

	// Guarded by Backend.mu.
	lease *lease // that its key is attached to; nil: nothing was asked for
	key   string
	rev   int64  // create revision of its key; 0: not known to be there
	over  error  // why its key is not there any more; nil: it is, or may be
	wake  func() // tells the one who waits that over is set; nil: nobody waits
	grant driver.Grant
	until time.Time   // what the client was told last
	timer *time.Timer // begins watch; nil: it has
	watch *watch      // of the holder; nil: it does not hold

	late    bool // a request that enters it may arrive later, or arrive again
	closing bool // it is being released or abandoned: nothing more is asked for it
	spent   bool // its key is not used again: a deletion that compares nothing may be on its way
}

var (
	errReleased  = errors.New("it was released")
	errAbandoned = fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused)
	errKeyGone   = fmt.Errorf("%w: its key is gone from etcd: its lease has ended, or somebody has deleted it", driver.ErrLost)
	errLeaseGone = fmt.Errorf("%w: etcd has ended the lock's lease: it expired, or was revoked", driver.ErrLost)
)

// maxTTL is far above what makes sense, and far below what overflows.
const maxTTL = math.MaxInt64 / 4

// repeatedAfter is after how long a transaction may have been sent again by clientv3: it does so, behind our back, when a server or a proxy answers
// that it has cancelled the request, or has taken too long. The first one may then arrive later than the second.
const repeatedAfter = time.Second

// TryAcquire implements driver.Backend, in one transaction.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	c, err := b.enter(req)
	if err != nil {
		return nil, err
	}
	p, err := b.ask(ctx, c, req.Queue, nil)
	return b.outcome(c, p, err)
}

// enter registers the claim of req, or finds it.
func (b *Backend) enter(req driver.Request) (*claim, error) {
	if req.TTL < capabilities.MinTTL || req.TTL > maxTTL {
		return nil, fmt.Errorf("%w: the TTL %v is not from 1s to %v: etcd counts in whole seconds", driver.ErrRefused, req.TTL, maxTTL)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.claims[req.Owner]
	if c == nil || c.req.Name != req.Name || c.req.TTL != req.TTL {
		c = &claim{b: b, req: req, within: b.layout.at(req)}
		b.claims[req.Owner] = c
	}
	return c, nil
}

// outcome turns the place of a claim in the queue into what the driver's methods return.
func (b *Backend) outcome(c *claim, p place, err error) (driver.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
	case p.ahead > 0:
		err = &driver.HeldError{}
	default:
		if err = b.win(c, p); err == nil {
			return c, nil
		}
	}
	switch {
	case c.rev != 0 || !certain(err):
	case c.late:
		err = fmt.Errorf("%w: the claim may arrive later: %v", driver.ErrUnknown, err)
	default:
		b.drop(c)
	}
	return nil, err
}

// place is where a claim stands in the queue of its name.
type place struct {
	revision int64  // of the store when it stood there
	ahead    int    // how many of the claims before it have to end before it is granted; 0: none
	before   string // the key of the last of them; empty: it does not matter which of them end
	others   bool   // somebody who waits stands behind it
}

// behind is the place behind the keys that r has, newest first: the first that is not c's own is to end.
func (c *claim) behind(r *clientv3.GetResponse) (p place) {
	for _, kv := range r.Kvs {
		if key := string(kv.Key); key != c.key {
			return place{ahead: 1, before: key}
		}
	}
	return p
}

// rivals are the keys, from the first to before the last, beside which c cannot have the name: for a reader, those of writers.
func (c *claim) rivals() (from, to string) {
	if c.req.Shared {
		return c.within, c.within + sharedTag
	}
	return c.within, clientv3.GetPrefixRangeEnd(c.within)
}

// ask asks for the name in one transaction, and leaves the claim's key there in another if queue says so and somebody else has the name. old, if not
// nil, is released in the same transaction. The error is driver.ErrHeld if it has no place in the queue, and classified.
func (b *Backend) ask(ctx context.Context, c *claim, queue bool, old *claim) (p place, err error) {
	b.mu.Lock()
	known, l := c.rev != 0, c.lease // that an earlier attempt used
	b.mu.Unlock()
	for again := false; ; again = true {
		if l == nil {
			if l, err = b.take(ctx, c.req.TTL); err != nil {
				return place{}, err
			}
			b.attach(c, l)
		}
		b.mu.Lock()
		k := b.keep(l, false)
		b.mu.Unlock()
		switch {
		case known:
			p, err = b.look(ctx, c)
		case c.req.Permits > 0 && !queue:
			p, err = b.tryPermit(ctx, c)
		case old != nil || c.req.Permits > 0:
			p, err = b.enqueue(ctx, c, queue, 0, old)
		default: // most names are free, and etcd reads no queue for them
			if p, err = b.enqueue(ctx, c, false, 0, nil); queue && errors.Is(err, driver.ErrHeld) {
				p, err = b.enqueue(ctx, c, true, 0, nil)
			}
		}
		switch {
		case err == nil && p.ahead == 0:
			_ = k.wait(ctx, true) // without it the validity is shorter
		case isGone(err) && !again: // somebody has revoked it, and no claim was made
			b.lost(l)
			l = nil
			continue
		case errors.Is(err, driver.ErrHeld) && (queue || c.req.Permits > 0) && !again && !c.isLate(): // its key is taken, by a claim that was attached elsewhere, say
			l, old = nil, nil
			continue
		}
		return p, err
	}
}

// attach chooses the key of c: one that belongs to l and is free.
func (b *Backend) attach(c *claim, l *lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.lease = l
	for n := 0; ; n++ {
		c.key = keyOf(c.within+tagOf(c.req), l.id, n)
		if _, taken := l.keys[c.key]; !taken {
			l.keys[c.key] = struct{}{}
			c.within = c.key[:len(c.within)] // one string in memory instead of two
			return
		}
	}
}

// errOvertaken: somebody has asked for a permit of the name since the revision at which one was seen to be free.
var errOvertaken = errors.New("somebody else was quicker")

// tryPermit asks for a permit if one is free and nobody asks for another meanwhile: a claim that is entered and taken out again would, while it is there, keep
// others from a permit that is free.
func (b *Backend) tryPermit(ctx context.Context, c *claim) (p place, _ error) {
	for {
		from, to := c.rivals()
		r, err := b.get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(1))
		if err != nil {
			return p, err
		}
		for _, e := range entries(r) {
			if err := c.otherPermits(b.layout.claimant(e)); err != nil {
				return p, err
			}
		}
		if r.Count >= int64(c.req.Permits) {
			return place{ahead: 1}, nil
		}
		if p, err = b.enqueue(ctx, c, false, r.Header.Revision, nil); !errors.Is(err, errOvertaken) {
			return p, err
		}
	}
}

// otherPermits is why c is refused if st has a permit of another number of them.
func (c *claim) otherPermits(st driver.Status) error {
	if st.Permits == c.req.Permits {
		return nil
	}
	return fmt.Errorf("%w: %w: the name has %d permits, not %d", driver.ErrRefused, driver.ErrInvalidOption, st.Permits, c.req.Permits)
}

// claimTxn is a transaction of ask: it puts the key of c, attached to its lease, if nobody has the name, or in any case if it is to queue, and c was not
// abandoned. Of permits, at is the revision since which nobody must have asked for one, 0: any. Repeated, it finds its key there.
func (b *Backend) claimTxn(c *claim, queue bool, at int64) request {
	from, to := c.rivals()
	r := request{
		name: c.req.Name,
		when: []clientv3.Cmp{created(b.layout.tombstone(c.req.Owner), 0), created(from, 0).WithRange(to)},
		then: []clientv3.Op{clientv3.OpPut(c.key, valueOf(c.req.Owner), clientv3.WithLease(c.lease.id))},
		or:   []clientv3.Op{opGet(from, to, 1, clientv3.SortAscend)},
	}
	switch {
	case c.req.Permits > 0: // etcd cannot compare how many there are, so that each is entered unless others have another number
		first := from + tagOf(c.req)
		r.when[1] = created(c.key, 0)
		r.when = append(r.when, created(from, 0).WithRange(first), created(clientv3.GetPrefixRangeEnd(first), 0).WithRange(to))
		r.then = append(r.then, clientv3.OpGet(from, clientv3.WithRange(to), clientv3.WithCountOnly()))
		if at != 0 {
			r.when = append(r.when, clientv3.Compare(clientv3.CreateRevision(from).WithRange(to), "<", at+1))
		}
		r.or = append(r.or, clientv3.OpGet(b.layout.tombstone(c.req.Owner), clientv3.WithCountOnly()), clientv3.OpGet(c.key))
	case queue:
		r.when[1], r.or[0] = created(c.key, 0), clientv3.OpGet(c.key)
		r.then = append(r.then, opGet(from, to, 2, clientv3.SortDescend, clientv3.WithKeysOnly()))
	case c.req.Shared: // whose own key is not among those of its rivals
		r.when, r.or = append(r.when, created(c.key, 0)), append(r.or, clientv3.OpGet(c.key))
	}
	return r
}

// enqueue sends the transaction of ask. For at, see claimTxn; with one, the error may be errOvertaken.
func (b *Backend) enqueue(ctx context.Context, c *claim, queue bool, at int64, old *claim) (place, error) {
	txn := b.claimTxn(c, queue, at)
	if old != nil {
		txn = request{name: txn.name, then: []clientv3.Op{old.removal().op(), txn.op()}}
	}
	r, err := b.put(ctx, c, txn)
	if err != nil {
		return place{}, err
	}
	if old != nil {
		old.removed(part(r, 0).Succeeded)
		r = part(r, 1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Succeeded {
		c.rev = r.Header.Revision
		var p place
		switch {
		case c.req.Permits > 0:
			p.ahead = max(0, int(rangeAt(r, 1).Count)-c.req.Permits)
		case queue:
			p = c.behind(rangeAt(r, 1))
		}
		p.revision = c.rev
		return p, nil
	}
	for i := range slices.Backward(r.Responses) { // the own key, where it is asked for, is the last
		for _, e := range entries(rangeAt(r, i)) {
			st := b.layout.claimant(e)
			refused := c.otherPermits(st)
			switch {
			case st.Owner == c.req.Owner: // it has been entered before
				c.rev = e.created
				b.mu.Unlock()
				defer b.mu.Lock()
				return b.look(ctx, c)
			case e.key == c.key: // a claim that was repeated behind our back has arrived after it was released: it ends with its lease
				b.retire(c.lease)
			case refused != nil:
				return place{}, refused
			case c.req.Permits > 0: // which keeps nobody out
				continue
			}
			return place{}, &driver.HeldError{Holder: st}
		}
	}
	if at != 0 && rangeAt(r, 1).Count == 0 { // there is no tombstone
		return place{}, errOvertaken
	}
	return place{}, errAbandoned
}

// put sends txn, which puts the key of c, unless that was abandoned, and notes whether it may arrive later, or again.
func (b *Backend) put(ctx context.Context, c *claim, txn request) (*clientv3.TxnResponse, error) {
	b.mu.Lock()
	late, closing := c.late, c.closing
	c.late = true
	b.mu.Unlock()
	if closing {
		return nil, errAbandoned
	}
	sent := time.Now()
	r, err := b.write(ctx, txn)
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.late = late || err != nil && !certain(err) || time.Since(sent) > repeatedAfter; c.late {
		b.retire(c.lease)
	}
	return r, err
}

func (c *claim) isLate() bool {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.late
}

// look looks where a claim stands that is at the server, or was.
func (b *Backend) look(ctx context.Context, c *claim) (place, error) {
	b.mu.Lock()
	key, rev := c.key, c.rev
	b.mu.Unlock()
	limit := int64(1)
	if c.req.Permits > 0 {
		limit = 0 // all
	}
	from, to := c.rivals()
	a := b.commit(ctx, request{when: []clientv3.Cmp{created(key, rev)}, then: []clientv3.Op{
		opGet(from, to, limit, clientv3.SortDescend, clientv3.WithMaxCreateRev(rev-1), clientv3.WithKeysOnly()),
		opGet(from, to, limit, clientv3.SortAscend, clientv3.WithMinCreateRev(rev+1), clientv3.WithKeysOnly()),
	}})
	if a.err != nil { // also where it was not sent: the claim is there, or was
		return place{}, classify(ctx, a.err, true)
	}
	r := a.txn
	if !r.Succeeded {
		err := fmt.Errorf("%w: its place in the queue of etcd is gone: its lease has ended, or somebody has deleted it", driver.ErrUnavailable)
		b.gone(c, err)
		return place{}, err
	}
	p, before, after := c.behind(rangeAt(r, 0)), len(rangeAt(r, 0).Kvs), len(rangeAt(r, 1).Kvs)
	p.others = after > 0
	if n := c.req.Permits; n > 0 {
		p = place{ahead: max(0, before+1-n), others: after > 0 && before+1+after > n}
	}
	p.revision = r.Header.Revision
	return p, nil
}
