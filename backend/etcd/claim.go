package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// claim is what this backend knows of one owner id: a claim that is being made or waits, and then the lease.
type claim struct {
	b      *Backend
	req    driver.Request
	within string // what the keys of all claims on the name begin with

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
		c = &claim{b: b, req: req, within: b.layout.of(req.Name)}
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
	case p.ahead != "":
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
	ahead    string // the key just before it; empty: it is the first
	others   bool   // somebody stands behind it
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
		case old != nil:
			p, err = b.enqueue(ctx, c, queue, old)
		default: // most names are free, and etcd reads no queue for them
			if p, err = b.enqueue(ctx, c, false, nil); queue && errors.Is(err, driver.ErrHeld) {
				p, err = b.enqueue(ctx, c, true, nil)
			}
		}
		switch {
		case err == nil && p.ahead == "":
			_ = k.wait(ctx, true) // without it the validity is shorter
		case isGone(err) && !again: // somebody has revoked it, and no claim was made
			b.lost(l)
			l = nil
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
		c.key = keyOf(c.within, l.id, n)
		if _, taken := l.keys[c.key]; !taken {
			l.keys[c.key] = struct{}{}
			c.within = c.key[:len(c.within)] // one string in memory instead of two
			return
		}
	}
}

// claimTxn is a transaction of ask: it puts the key of c, attached to its lease, if nobody has the name, or in any case if it is to queue, and c was not
// abandoned. Repeated, it finds its key there.
func (b *Backend) claimTxn(c *claim, queue bool) request {
	r := request{
		name: c.req.Name,
		when: []clientv3.Cmp{created(b.layout.tombstone(c.req.Owner), 0), created(c.within, 0).WithRange(clientv3.GetPrefixRangeEnd(c.within))},
		then: []clientv3.Op{clientv3.OpPut(c.key, valueOf(c.req.Owner), clientv3.WithLease(c.lease.id))},
		or:   []clientv3.Op{opGet(c.within, 1, clientv3.SortAscend)},
	}
	if queue {
		r.when[1], r.or[0] = created(c.key, 0), clientv3.OpGet(c.key)
		r.then = append(r.then, opGet(c.within, 2, clientv3.SortDescend, clientv3.WithKeysOnly()))
	}
	return r
}

// enqueue sends the transaction of ask.
func (b *Backend) enqueue(ctx context.Context, c *claim, queue bool, old *claim) (place, error) {
	b.mu.Lock()
	late := c.late
	c.late = true
	closing := c.closing
	b.mu.Unlock()
	if closing {
		return place{}, errAbandoned
	}
	txn := b.claimTxn(c, queue)
	if old != nil {
		txn = request{name: txn.name, then: []clientv3.Op{old.removal().op(), txn.op()}}
	}
	sent := time.Now()
	r, err := b.write(ctx, txn)
	if err == nil && old != nil {
		old.removed(part(r, 0).Succeeded)
		r = part(r, 1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.late = late || err != nil && !certain(err) || time.Since(sent) > repeatedAfter; c.late {
		b.retire(c.lease)
	}
	if err != nil {
		return place{}, err
	}
	if r.Succeeded {
		c.rev = r.Header.Revision
		p := place{revision: c.rev}
		if queue {
			for _, kv := range rangeAt(r, 1).Kvs {
				if string(kv.Key) != c.key {
					p.ahead = string(kv.Key)
				}
			}
		}
		return p, nil
	}
	for _, kv := range rangeAt(r, 0).Kvs {
		switch owner, foreign := b.layout.ownerOf(kv.Key, kv.Value); {
		case owner == c.req.Owner: // it has been entered before
			c.rev = kv.CreateRevision
			b.mu.Unlock()
			defer b.mu.Lock()
			return b.look(ctx, c)
		case string(kv.Key) == c.key: // a claim that was repeated behind our back has arrived after it was released: it ends with its lease
			b.retire(c.lease)
			fallthrough
		default:
			return place{}, &driver.HeldError{Holder: driver.Status{Owner: owner, Foreign: foreign, Token: uint64(kv.CreateRevision)}}
		}
	}
	return place{}, errAbandoned
}

// look looks where a claim stands that is at the server, or was.
func (b *Backend) look(ctx context.Context, c *claim) (place, error) {
	client, err := b.ready(ctx)
	if err != nil {
		return place{}, classify(ctx, err, true)
	}
	ctx, cancel := connected(ctx, client)
	defer cancel()
	b.mu.Lock()
	key, rev := c.key, c.rev
	b.mu.Unlock()
	r, err := client.Txn(ctx).If(created(key, rev)).Then(
		opGet(c.within, 1, clientv3.SortDescend, clientv3.WithMaxCreateRev(rev-1), clientv3.WithKeysOnly()),
		opGet(c.within, 1, clientv3.SortAscend, clientv3.WithMinCreateRev(rev+1), clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return place{}, classify(ctx, err, true)
	}
	if !r.Succeeded {
		err := fmt.Errorf("%w: its place in the queue of etcd is gone: its lease has ended, or somebody has deleted it", driver.ErrUnavailable)
		b.gone(c, err)
		return place{}, err
	}
	p := place{revision: r.Header.Revision, others: len(rangeAt(r, 1).Kvs) > 0}
	for _, kv := range rangeAt(r, 0).Kvs {
		p.ahead = string(kv.Key)
	}
	return p, nil
}
