package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// claim is the backend's state for one owner id: a claim in progress or waiting, and then the lease.
type claim struct {
	b      *Backend
	req    driver.Request
	prefix string // key prefix of all claims on the name, or on its permits

	// Guarded by Backend.mu.
	lease *lease // the key is attached to it; nil: nothing was sent
	key   string
	rev   int64 // create revision of the key; 0: the key is not known to exist
	grant driver.Grant
	watch *watch      // the holder's; nil: not held
	timer *time.Timer // starts watch
	ended error       // errReleased or errKeyGone: no request may create the key any more; nil: none of these
	late  bool        // a request that creates the key is under way, or may arrive later or again
}

var (
	errReleased  = fmt.Errorf("%w: it was released or abandoned", driver.ErrLost)
	errAbandoned = fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused)
	errKeyGone   = fmt.Errorf("%w: its key in etcd is gone: the lease ended, or somebody deleted the key", driver.ErrLost)
	errPlaceGone = fmt.Errorf("%w: its place in etcd's queue is gone: the lease ended, or somebody deleted the key", driver.ErrUnavailable)
)

// repeatedAfter is the time after which clientv3 may have sent a transaction again without telling us. It does so when a server or proxy
// answers that the request was canceled or took too long. The first copy may then arrive after the second.
const repeatedAfter = time.Second

// TryAcquire implements driver.Backend, in one transaction. A claim on a permit enters the queue. If no permit is free and it need not wait, a second
// transaction withdraws it.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	lease, err := b.attempt(req, func(c *claim) (place, error) { return b.acquire(ctx, c, req.Queue, b.write) })
	if req.Permits > 0 && !req.Queue && errors.Is(err, driver.ErrHeld) {
		if failed := b.Abandon(ctx, req); failed != nil {
			err = classify(ctx, errors.New(failed.Error()), true)
		}
	}
	return lease, err
}

// attempt runs f for the claim of req, and turns the claim's place in the queue into the results of a driver method.
func (b *Backend) attempt(req driver.Request, f func(*claim) (place, error)) (driver.Lease, error) {
	c, err := b.register(req)
	if err != nil {
		return nil, err
	}
	p, err := f(c)
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
	isHeld := errors.Is(err, driver.ErrHeld)
	switch {
	case errors.Is(err, driver.ErrLost): // of Attach
		b.drop(c)
	case !certain(err), c.rev != 0 && (isHeld || req.Queue): // it is abandoned or repeated
	case c.rev != 0 || c.late: // the client would forget it
		err = fmt.Errorf("%w: the claim was made, or may arrive later: %v", driver.ErrUnknown, err)
	case isHeld || !req.Queue:
		b.drop(c)
	}
	return nil, err
}

// register returns the claim of req, which it creates if there is none.
func (b *Backend) register(req driver.Request) (*claim, error) {
	if req.TTL < capabilities.MinTTL || req.TTL > driver.MaxTTL {
		return nil, fmt.Errorf("%w: %w: the TTL %v is too small or too large; etcd counts whole seconds", driver.ErrRefused, driver.ErrInvalidOption, req.TTL)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.claims[req.Owner]
	if c == nil {
		c = &claim{b: b, req: req, prefix: b.layout.claimPrefix(req)}
		b.claims[req.Owner] = c
	}
	return c, nil
}

// place is a claim's place in the queue of its name.
type place struct {
	revision  int64  // of the store when the place was read
	ahead     int    // how many earlier claims must end before the grant; 0: none
	before    string // key of the last of these claims; empty: any of them may end
	contended bool   // a waiter is behind it
}

// placeBehind is the place behind the keys of r, newest first: c waits for the first key that is not its own.
func (c *claim) placeBehind(r *clientv3.GetResponse) (p place) {
	for _, kv := range r.Kvs {
		if key := string(kv.Key); key != c.key {
			return place{ahead: 1, before: key}
		}
	}
	return p
}

// rivals returns the range of keys [from, to) that exclude c; for a reader, the writers' keys.
func (c *claim) rivals() (from, to string) {
	if c.req.Shared {
		return c.prefix, c.prefix + sharedTag
	}
	return c.prefix, clientv3.GetPrefixRangeEnd(c.prefix)
}

// sender sends the transaction of a claim, as Backend.write does.
type sender func(ctx context.Context, txn request) (*clientv3.TxnResponse, error)

// acquire requests the name in one transaction, which send sends. If the name is taken, the claim's key enters the queue if queue is set, or
// for a permit. Errors are classified; driver.ErrHeld: the claim is not in the queue.
func (b *Backend) acquire(ctx context.Context, c *claim, queue bool, send sender) (p place, err error) {
	b.mu.Lock()
	known, l := c.rev != 0, c.lease // from an earlier attempt
	b.mu.Unlock()
	if known {
		return b.whileAlive(ctx, l, func() (place, error) { return b.locate(ctx, c) })
	}
	for again := false; ; again = true {
		if l == nil {
			if l, err = b.leaseFor(ctx, c.req.TTL); err != nil {
				return place{}, err
			}
			b.assignKey(c, l)
		}
		p, err = b.put(ctx, c, func() (place, error) { return b.submit(ctx, c, queue, send) })
		if again || !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return p, err
		}
		l = nil // it was revoked, and no claim was made
	}
}

// assignKey gives c a free key under lease l.
func (b *Backend) assignKey(c *claim, l *lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.lease = l
	for n := 0; ; n++ {
		c.key = keyOf(c.prefix+modeTag(c.req), l.id, n)
		if _, taken := l.keys[c.key]; !taken {
			l.keys[c.key] = struct{}{}
			c.prefix = c.key[:len(c.prefix)] // share one string in memory
			return
		}
	}
}

// claimTxn is the transaction of acquire. It puts c's key, attached to its lease, if nobody has the name (in any case if queue is set,
// or for a permit) and c was not abandoned. A repetition finds the key.
func (b *Backend) claimTxn(c *claim, queue bool) request {
	from, to := c.rivals()
	r := request{
		name: c.req.Name,
		when: []clientv3.Cmp{created(b.layout.tombstone(c.req.Owner), 0), created(c.key, 0)},
		then: []clientv3.Op{clientv3.OpPut(c.key, valueOf(c.req.Owner), clientv3.WithLease(c.lease.id))},
		or:   []clientv3.Op{clientv3.OpGet(c.key)},
	}
	switch {
	case c.req.Permits > 0: // etcd cannot compare counts: enter the claim unless others have another number
		first := from + modeTag(c.req)
		r.when = append(r.when, created(from, 0).WithRange(first), created(clientv3.GetPrefixRangeEnd(first), 0).WithRange(to))
		r.then = append(r.then, clientv3.OpGet(from, clientv3.WithRange(to), clientv3.WithCountOnly()))
		r.or = append(r.or, opGet(from, to, 1, clientv3.SortAscend))
	case queue:
		r.then = append(r.then, opGet(from, to, 2, clientv3.SortDescend, clientv3.WithKeysOnly()))
	default:
		r.when = append(r.when, created(from, 0).WithRange(to))
		r.or = append(r.or, opGet(from, to, 1, clientv3.SortAscend))
		if c.req.Shared { // the first writer may wait for earlier readers, which hold the name
			r.or = append(r.or, opGet(c.prefix, clientv3.GetPrefixRangeEnd(c.prefix), 1, clientv3.SortAscend))
		}
	}
	return r
}

// submit sends the transaction of acquire.
func (b *Backend) submit(ctx context.Context, c *claim, queue bool, send sender) (place, error) {
	r, err := send(ctx, b.claimTxn(c, queue))
	if err != nil {
		return place{}, err
	}
	if r.Succeeded {
		c.setRevision(r.Header.Revision)
		var p place
		switch {
		case c.req.Permits > 0:
			p.ahead = max(0, int(rangeAt(r, 1).Count)-c.req.Permits)
		case queue:
			p = c.placeBehind(rangeAt(r, 1))
		}
		p.revision = r.Header.Revision
		return p, nil
	}
	for i := range min(len(r.Responses), 2) { // the claim's own key, and its first rival
		for _, e := range entries(rangeAt(r, i)) {
			st := b.layout.claimant(e)
			switch {
			case st.Owner == c.req.Owner: // an earlier attempt entered it
				c.setRevision(e.created)
				return b.locate(ctx, c)
			case e.key == c.key: // a copy of an earlier claim on this key arrived after its release; a repetition of c may take another key
				b.mu.Lock()
				b.retire(c.lease)
				b.mu.Unlock()
				_, _ = b.write(ctx, request{ // on failure it ends with the lease
					name: c.req.Name,
					when: []clientv3.Cmp{created(e.key, e.created), clientv3.Compare(clientv3.Value(e.key), "=", e.value)},
					then: []clientv3.Op{clientv3.OpDelete(e.key)},
				})
			case st.Permits != c.req.Permits:
				return place{}, driver.OtherPermits(st.Permits, c.req.Permits)
			case c.req.Permits > 0: // another permit's claim excludes nobody
				continue
			case len(r.Responses) > 2 && i == 1:
				st = b.layout.claimant(entries(rangeAt(r, 2))[0])
			}
			return place{}, &driver.HeldError{Holder: st}
		}
	}
	return place{}, errAbandoned
}

// setRevision sets the create revision of c's key; 0: the key is gone.
func (c *claim) setRevision(rev int64) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.rev = rev
}

// put calls submit, unless c was abandoned. submit sends a transaction that creates c's key, and records its revision. put records whether that
// transaction may arrive later, or again. Other claims get another lease if that is so, or if etcd does not know this one.
func (b *Backend) put(ctx context.Context, c *claim, submit func() (place, error)) (place, error) {
	b.mu.Lock()
	l, late, ended := c.lease, c.late, c.ended
	c.late = late || ended == nil
	b.mu.Unlock()
	if ended != nil {
		return place{}, errAbandoned
	}
	return b.whileAlive(ctx, l, func() (place, error) {
		sent := time.Now()
		p, err := submit()
		b.mu.Lock()
		defer b.mu.Unlock()
		if c.late = late || err != nil && !certain(err) || time.Since(sent) > repeatedAfter; c.late || errors.Is(err, rpctypes.ErrLeaseNotFound) {
			b.retire(l)
		}
		return p, err
	})
}

// whileAlive calls f, and renews l meanwhile if that is due, for a claim that f finds first in the queue, or leaves there.
func (b *Backend) whileAlive(ctx context.Context, l *lease, f func() (place, error)) (place, error) {
	b.mu.Lock()
	k := b.refresh(l, false)
	b.mu.Unlock()
	p, err := f()
	if err == nil && p.ahead == 0 {
		_ = k.wait(ctx, true) // on failure the validity is shorter
	}
	return p, err
}

// locate finds the place of a claim that is on the server, or was.
func (b *Backend) locate(ctx context.Context, c *claim) (place, error) {
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
	if a.err != nil { // even if this was not sent: the claim is there, or was
		return place{}, classify(ctx, a.err, true)
	}
	r := a.txn
	if !r.Succeeded {
		c.setRevision(0)
		return place{}, errPlaceGone
	}
	p, before, after := c.placeBehind(rangeAt(r, 0)), len(rangeAt(r, 0).Kvs), len(rangeAt(r, 1).Kvs)
	p.contended = after > 0
	if n := c.req.Permits; n > 0 {
		p = place{ahead: max(0, before+1-n), contended: after > 0 && before+1+after > n}
	}
	p.revision = r.Header.Revision
	return p, nil
}
