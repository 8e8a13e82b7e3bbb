package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// New makes a client of lockport on client. It does no I/O, and closing it does not close client. client's own namespace wrappers
// (package namespace) are not seen: Options.Prefix is for that.
func New(client *clientv3.Client, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	b, err := NewBackend(client, o)
	if err != nil {
		return nil, lockport.InvalidOption(capabilities.Backend, err)
	}
	return lockport.New(b, opts...)
}

// NewBackend makes a backend for lockport.New, as New does.
func NewBackend(client *clientv3.Client, o Options) (*Backend, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	return newBackend(newLink(client, nil), o)
}

func newBackend(l *link, o Options) (*Backend, error) {
	where, err := o.prepare()
	if err != nil {
		return nil, err
	}
	b := &Backend{link: l, layout: where, claims: make(map[string]*claim)}
	b.flights.link = l
	b.leases = leases{b: b, current: make(map[time.Duration]*lease), granting: make(map[time.Duration]chan struct{})}
	b.watches = watches{b: b, all: make(map[*watch]struct{})}
	return b, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	link    *link
	layout  layout
	flights flights
	leases  leases
	watches watches
	running sync.WaitGroup // of the streams

	mu     sync.Mutex
	claims map[string]*claim // being made, waiting, or held, by owner
}

var _ interface {
	driver.Backend
	driver.Waiter
	driver.Requeuer
	driver.BatchRenewer
	driver.Inspector
	driver.Breaker
	driver.Checker
} = (*Backend)(nil)

var capabilities = driver.Capabilities{
	Backend:   "etcd",
	Ends:      driver.EndsTTL,
	MinTTL:    time.Second,
	TTLGrain:  time.Second,
	Token:     driver.TokenData,
	Fair:      driver.FairFIFO,
	Wake:      driver.WakeQueue,
	Failover:  driver.FailoverSafe,
	Prompt:    true,
	Queue:     true,
	Contended: true,
	// A watch is opened 50 ms into the hold, and etcd may take 100 ms to send what happened before it was.
	RemovalNotice: func(time.Duration) time.Duration { return holderPatience + 200*time.Millisecond },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// Close implements driver.Backend. It closes the client too if that was made of a URL.
func (b *Backend) Close() error {
	b.link.cancel()
	b.leases.close()
	b.watches.close()
	b.running.Wait()
	return b.link.close()
}

// TryAcquire implements driver.Backend, in one transaction.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	c, err := b.enter(req)
	if err != nil {
		return nil, err
	}
	p, err := b.ask(ctx, c, req.Queue, nil)
	return b.outcome(c, p, err)
}

// outcome turns the place of a claim in the queue into what the driver's methods return.
func (b *Backend) outcome(c *claim, p place, err error) (driver.Lease, error) {
	if err == nil && p.first() {
		if err = b.win(c, p); err == nil {
			return c, nil
		}
	}
	if err == nil {
		err = &driver.HeldError{}
	}
	b.settle(c, err)
	return nil, err
}

// maxTTL is far above what makes sense, and far below what overflows.
const maxTTL = math.MaxInt64 / 4

// enter registers the claim of req, or finds it.
func (b *Backend) enter(req driver.Request) (*claim, error) {
	if req.TTL < capabilities.MinTTL || req.TTL > maxTTL {
		return nil, fmt.Errorf("%w: the TTL %v is not from 1s to %v: etcd counts in whole seconds", driver.ErrRefused, req.TTL, maxTTL)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.claims[req.Owner]
	if c == nil || c.req.Name != req.Name || c.req.TTL != req.TTL {
		c = b.newClaim(req)
		b.claims[req.Owner] = c
	}
	return c, nil
}

// place is where a claim stands in the queue of its name.
type place struct {
	revision int64  // of the store when it stood there
	ahead    []byte // the key just before it; nil: it is the first
	others   bool   // somebody stands behind it
}

func (p place) first() bool { return p.ahead == nil }

// ask asks for the name in one transaction; leaving the claim's key there, too, if queue says so and somebody else has the name. old, if not
// nil, is released in the same transaction. The error is driver.ErrHeld if it has no place in the queue, and classified.
func (b *Backend) ask(ctx context.Context, c *claim, queue bool, old *claim) (place, error) {
	b.mu.Lock()
	known := c.rev != 0
	l := c.lease // that an earlier attempt used
	b.mu.Unlock()
	if known {
		k := b.leases.keepFresh(l)
		p, err := b.look(ctx, c)
		if err == nil && p.first() {
			_ = b.leases.wait(ctx, k) // without it the validity is shorter
		}
		return p, err
	}
	var k *keeping
	for attempt := 0; ; attempt++ {
		if l == nil {
			var err error
			if l, k, err = b.leases.take(ctx, c.ttl()); err != nil {
				return place{}, err
			}
			b.attach(c, l)
		}
		p, err := b.enqueue(ctx, c, queue, old)
		if isGone(err) && attempt == 0 {
			// Somebody has revoked it. No claim was made.
			b.leases.lost(l)
			b.detach(c)
			l = nil
			continue
		}
		if err == nil && p.first() {
			_ = b.leases.wait(ctx, k)
		}
		return p, err
	}
}

// claimTxn is the transaction of ask: it puts the key of c, attached to its lease, if nobody has the name, or in any case if it is to queue,
// and c was not abandoned.
func (b *Backend) claimTxn(c *claim, queue bool) *pb.TxnRequest {
	key, grave := []byte(c.key), []byte(b.layout.grave(c.req.Owner))
	begin, end := key[:len(c.within)], rangeEnd(c.within)
	txn := &pb.TxnRequest{
		Compare: []*pb.Compare{created(grave, 0)},
		Success: []*pb.RequestOp{put(key, []byte(valueOf(c.req.Owner)), c.lease.id)},
		Failure: []*pb.RequestOp{get(&pb.RangeRequest{Key: key}), get(&pb.RangeRequest{Key: grave, CountOnly: true})},
	}
	if queue {
		txn.Compare = append(txn.Compare, created(key, 0))
		txn.Success = append(txn.Success, get(last(begin, end, 2)))
	} else {
		txn.Compare = append(txn.Compare, none(begin, end))
	}
	return txn
}

// enqueue sends the transaction of ask.
func (b *Backend) enqueue(ctx context.Context, c *claim, queue bool, old *claim) (_ place, err error) {
	txn := b.claimTxn(c, queue)
	if old != nil {
		txn = &pb.TxnRequest{Success: []*pb.RequestOp{old.release().op(), nested(txn)}}
	}
	if !b.sending(c) {
		return place{}, errAbandoned
	}
	defer func() { b.asked(c, err) }()
	a := b.flights.run(ctx, c.req.Name, request{txn: txn})
	if old != nil {
		_ = old.released(a.part(ctx, 0))
		a = a.part(ctx, 1)
	}
	switch {
	case isFull(a.err):
		return b.entered(ctx, c, a.err)
	case a.err != nil:
		return place{}, a.err
	case !a.txn.Succeeded:
		return b.refused(ctx, c, a.txn)
	}
	b.placed(c, a.revision)
	p := place{revision: a.revision}
	if queue {
		all, err := rangeAt(a.txn, 1)
		if err != nil {
			return place{}, classify(ctx, err, true)
		}
		for _, kv := range all.Kvs {
			if string(kv.Key) != c.key {
				p.ahead = kv.Key
			}
		}
	}
	return p, nil
}

// refused reads why a claim was not entered: somebody else has the name, it has been entered before, or abandoned.
func (b *Backend) refused(ctx context.Context, c *claim, r *pb.TxnResponse) (place, error) {
	own, err := rangeAt(r, 0)
	if err != nil {
		return place{}, classify(ctx, err, true)
	}
	grave, err := rangeAt(r, 1)
	switch {
	case err != nil:
		return place{}, classify(ctx, err, true)
	case len(own.Kvs) > 0 && string(own.Kvs[0].Value) == valueOf(c.req.Owner):
		b.placed(c, own.Kvs[0].CreateRevision)
		return b.look(ctx, c)
	case grave.Count > 0:
		return place{}, errAbandoned
	}
	return place{}, &driver.HeldError{}
}

// entered looks whether c was entered although etcd answered that it is out of space.
func (b *Backend) entered(ctx context.Context, c *claim, full error) (place, error) {
	w, err := b.link.wires(ctx)
	if err != nil {
		return place{}, classify(ctx, errFull, true)
	}
	r, err := w.kv.Range(ctx, &pb.RangeRequest{Key: []byte(c.key)})
	switch {
	case err != nil:
		return place{}, classify(ctx, errFull, true)
	case len(r.Kvs) > 0 && string(r.Kvs[0].Value) == valueOf(c.req.Owner):
		b.placed(c, r.Kvs[0].CreateRevision)
		return b.look(ctx, c)
	}
	return place{}, full
}

var errFull = errors.New("etcd is out of space, and may have carried out the request that filled it")

var errAbandoned = fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused)

// look looks where a claim stands that is at the server.
func (b *Backend) look(ctx context.Context, c *claim) (place, error) {
	b.mu.Lock()
	rev := c.rev
	b.mu.Unlock()
	key := []byte(c.key)
	begin, end := key[:len(c.within)], rangeEnd(c.within)
	ahead := last(begin, end, 1)
	ahead.MaxCreateRevision = rev - 1
	behind := &pb.RangeRequest{Key: begin, RangeEnd: end, MinCreateRevision: rev + 1, Limit: 1, KeysOnly: true}
	w, err := b.link.wires(ctx)
	if err != nil {
		return place{}, err
	}
	r, err := w.kv.Txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{created(key, rev)}, Success: []*pb.RequestOp{get(ahead), get(behind)}})
	if err != nil {
		return place{}, stillThere(ctx, err)
	}
	if !r.Succeeded {
		err := fmt.Errorf("%w: its place in the queue of etcd is gone: its lease has ended, or somebody has deleted it", driver.ErrUnavailable)
		b.removed(c, err)
		return place{}, err
	}
	before, err := rangeAt(r, 0)
	if err != nil {
		return place{}, stillThere(ctx, err)
	}
	after, err := rangeAt(r, 1)
	if err != nil {
		return place{}, stillThere(ctx, err)
	}
	p := place{revision: r.Header.GetRevision(), others: len(after.Kvs) > 0}
	if len(before.Kvs) > 0 {
		p.ahead = before.Kvs[0].Key
	}
	return p, nil
}

// stillThere is the error of a look at a claim that is at the server, or was.
func stillThere(ctx context.Context, err error) error { return classify(ctx, err, true) }

// Abandon implements driver.Backend. A claim that may still be on its way cannot be entered once it arrives: it finds its grave, or the
// lease that both are attached to has ended.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	c, l, key, late := b.known(req)
	if c == nil {
		return b.dig(ctx, req)
	}
	var err error
	if l != nil { // else nothing was ever asked
		txn := &pb.TxnRequest{
			Compare: []*pb.Compare{hasValue(key, []byte(valueOf(req.Owner)))},
			Success: []*pb.RequestOp{remove(key)},
		}
		if late {
			b.leases.retire(l)
			grave := put([]byte(b.layout.grave(req.Owner)), nil, l.id)
			txn = &pb.TxnRequest{Success: []*pb.RequestOp{nested(txn), grave}}
		}
		err = b.flights.run(ctx, req.Name, request{txn: txn}).err
	}
	if err != nil && !(late && isGone(err)) {
		return err
	}
	b.forget(c)
	return nil
}

// dig looks for a claim that this backend has not made, or has settled, and removes it.
func (b *Backend) dig(ctx context.Context, req driver.Request) error {
	w, err := b.link.wires(ctx)
	if err != nil {
		return err
	}
	within := b.layout.of(req.Name)
	r, err := w.kv.Range(ctx, &pb.RangeRequest{Key: []byte(within), RangeEnd: rangeEnd(within)})
	if err != nil {
		return classifyRead(ctx, err)
	}
	for _, kv := range r.Kvs {
		if string(kv.Value) == valueOf(req.Owner) {
			return b.flights.run(ctx, req.Name, request{txn: &pb.TxnRequest{
				Compare: []*pb.Compare{created(kv.Key, kv.CreateRevision)},
				Success: []*pb.RequestOp{remove(kv.Key)},
			}}).err
		}
	}
	return nil
}

// Requeue implements driver.Requeuer.
func (b *Backend) Requeue(ctx context.Context, from driver.Lease, req driver.Request) (driver.Lease, error, error) {
	old, ok := from.(*claim)
	if !ok || old.b != b {
		err := fmt.Errorf("%w: the lease is not of this backend", driver.ErrRefused)
		return nil, err, err
	}
	c, err := b.enter(req)
	if err != nil {
		return nil, err, err
	}
	if ended, how := old.ending(); ended {
		p, err := b.ask(ctx, c, req.Queue, nil)
		lease, err := b.outcome(c, p, err)
		return lease, how, err
	}
	p, err := b.ask(ctx, c, req.Queue, old)
	released := old.outcome(err)
	lease, err := b.outcome(c, p, err)
	return lease, released, err
}
