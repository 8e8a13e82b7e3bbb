package etcd

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/lockport/lockport/driver"
)

// listPage is how many keys List asks for at once.
const listPage = 1000

// Inspect implements driver.Inspector.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	within := b.layout.of(name)
	found := driver.Status{Name: name}
	err := b.each(ctx, within, func(s driver.Status) {
		if s.Name == name {
			found = s
		}
	})
	return found, err
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	var all []driver.Status
	err := b.each(ctx, b.layout.prefix+escapeName.Replace(prefix), func(s driver.Status) { all = append(all, s) })
	return all, err
}

// each calls found with the status of every lock whose keys begin with within.
func (b *Backend) each(ctx context.Context, within string, found func(driver.Status)) error {
	w, err := b.link.wires(ctx)
	if err != nil {
		return err
	}
	expiries := make(map[int64]time.Time) // of leases
	var first *mvccpb.KeyValue
	var name string
	waiters := 0
	done := func() error {
		if first == nil {
			return nil
		}
		s := driver.Status{Name: name, Held: true, Token: uint64(first.CreateRevision), Waiters: waiters}
		s.Owner, s.Foreign = b.layout.ownerOf(first)
		if first.Lease != 0 {
			at, ok := expiries[first.Lease]
			if !ok {
				r, err := w.lease.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: first.Lease})
				if err = classifyRead(ctx, err); err != nil && !isRejected(err) { // gone, or not to be asked for
					return err
				}
				if err == nil && r.TTL > 0 {
					at = time.Now().Add(time.Duration(r.TTL) * time.Second)
				}
				expiries[first.Lease] = at
			}
			s.Expires = at
		}
		found(s)
		return nil
	}
	page := &pb.RangeRequest{Key: []byte(within), RangeEnd: rangeEnd(within), Limit: listPage}
	if within == "" {
		page.Key = []byte{0}
	}
	for {
		r, err := w.kv.Range(ctx, page)
		if err != nil {
			return classifyRead(ctx, err)
		}
		for _, kv := range r.Kvs {
			of, _, ok := b.layout.name(string(kv.Key))
			switch {
			case !ok:
			case first != nil && of == name:
				waiters++
				if kv.CreateRevision < first.CreateRevision {
					first = kv
				}
			default:
				if err := done(); err != nil {
					return err
				}
				first, name, waiters = kv, of, 0
			}
		}
		if !r.More || len(r.Kvs) == 0 {
			return done()
		}
		page.Key = append(r.Kvs[len(r.Kvs)-1].Key, 0)
		page.Revision = r.Header.GetRevision() // all pages show the same moment
	}
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	within := b.layout.of(name)
	w, err := b.link.wires(ctx)
	if err != nil {
		return err
	}
	r, err := w.kv.Range(ctx, &pb.RangeRequest{
		Key: []byte(within), RangeEnd: rangeEnd(within), Limit: 1, SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_CREATE,
	})
	if err != nil {
		return classifyRead(ctx, err)
	}
	gone := fmt.Errorf("%w: %q does not have it", driver.ErrLost, owner)
	if len(r.Kvs) == 0 {
		return gone
	}
	if has, _ := b.layout.ownerOf(r.Kvs[0]); has != owner {
		return gone
	}
	key := r.Kvs[0].Key
	a := b.flights.run(ctx, name, request{txn: &pb.TxnRequest{
		Compare: []*pb.Compare{created(key, r.Kvs[0].CreateRevision)},
		Success: []*pb.RequestOp{remove(key)},
	}})
	switch {
	case a.err != nil:
		return a.err
	case !a.txn.Succeeded:
		return gone
	}
	return nil
}
