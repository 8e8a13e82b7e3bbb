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

// lease is an etcd lease that all claims of one TTL share. Only claims renew it, so it ends with the last of them. The backend's mutex guards it.
type lease struct {
	id       clientv3.LeaseID
	ttl      time.Duration
	creation *call               // once it is done, id and until are set; nil for a detached claim
	keys     map[string]struct{} // in use by claims
	until    time.Time           // valid until then, by the last confirmed request
	gone     bool                // etcd no longer knows it
	pending  *call               // the last keep-alive in flight
}

// A lease confirmed within TTL/refreshAfter is used as it is. Later, each use also starts a keep-alive. A lease with less than TTL/replaceBelow
// left might end before the claim arrives, so it is replaced. A keep-alive unanswered for TTL/repeatAfter is sent once more, usually to another
// member. After TTL/endsAfter, when renewals no longer wait for it, it ends: clientv3 may be repeating it without a pause.
const (
	refreshAfter = 3  // a third
	replaceBelow = 4  // a quarter
	repeatAfter  = 12 // a twelfth
	endsAfter    = 4  // a quarter
)

const (
	// sharedFor is how long claims join another claim's request for a lease. If it has no answer by then, the next claim asks another member.
	sharedFor = 500 * time.Millisecond
	// createTimeout bounds that request.
	createTimeout = 5 * time.Second
)

// leaseFor returns a lease for a new claim. Its errors are classified: nothing was claimed.
func (b *Backend) leaseFor(ctx context.Context, ttl time.Duration) (*lease, error) {
	ttl = (ttl + time.Second - 1) / time.Second * time.Second
	b.mu.Lock()
	l := b.leases[ttl]
	if l == nil || !l.usable() {
		l = newLease(ttl)
		l.creation = b.begin(func() error {
			ctx, cancel := context.WithTimeout(b.ctx, min(ttl, createTimeout))
			defer cancel()
			return b.create(ctx, l)
		})
		b.leases[ttl] = l
	}
	b.mu.Unlock()
	return l, l.creation.wait(ctx, false)
}

// usable reports whether new claims can use the lease, or join the request for it. The mutex is held.
func (l *lease) usable() bool {
	select {
	case <-l.creation.done:
		return l.creation.err == nil && time.Until(l.until) > l.ttl/replaceBelow
	default:
		return time.Since(l.creation.began) < sharedFor
	}
}

func newLease(ttl time.Duration) *lease { return &lease{ttl: ttl, keys: make(map[string]struct{})} }

// create creates l on etcd. Its errors are classified: the lease may exist, but nothing is attached to it.
func (b *Backend) create(ctx context.Context, l *lease) error {
	var sent time.Time
	r, err := do(ctx, b, false, func(ctx context.Context, client *clientv3.Client) (*clientv3.LeaseGrantResponse, error) {
		sent = time.Now()
		return client.Grant(ctx, int64(l.ttl/time.Second))
	})
	if err != nil {
		return err
	}
	least := time.Duration(r.TTL) * time.Second
	if least > l.ttl {
		return fmt.Errorf("%w: the TTL %v is below the server's minimum of %v: use a longer TTL, or shorten etcd's --election-timeout, which sets the minimum",
			driver.ErrRefused, l.ttl, least)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.id, l.until = r.ID, sent.Add(least)
	return nil
}

// retire stops new claims on l, and the reuse of its keys: a late claim on it must not find it alive for ever. The mutex is held.
func (b *Backend) retire(l *lease) {
	if b.leases[l.ttl] == l {
		delete(b.leases, l.ttl)
	}
}

// refresh starts a keep-alive of l, or joins the one in flight. nil: l was confirmed recently, and must is false. The mutex is held.
func (b *Backend) refresh(l *lease, must bool) *call {
	switch {
	case !must && time.Until(l.until) >= l.ttl-l.ttl/refreshAfter:
		return nil
	case l.pending != nil:
		return l.pending
	}
	l.pending = b.begin(func() error {
		err := b.keepAlive(l)
		b.mu.Lock()
		defer b.mu.Unlock()
		l.pending = nil
		return err
	})
	return l.pending
}

// keepAlive keeps l alive, as its pending call. The first answer counts: others may be due from a silent member, or one that asks a silent leader.
func (b *Backend) keepAlive(l *lease) error {
	ctx, cancel := context.WithTimeout(b.ctx, l.ttl/endsAfter)
	defer cancel()
	answers := make(chan error)
	for {
		b.running.Go(func() {
			err := b.sendKeepAlive(ctx, l)
			select {
			case answers <- err:
			case <-ctx.Done():
			}
		})
		select {
		case <-time.After(l.ttl / repeatAfter):
			continue
		case err := <-answers:
			return err
		case <-ctx.Done():
			return classify(ctx, ctx.Err(), true)
		}
	}
}

// sendKeepAlive sends one keep-alive for l. The validity counts from before it was sent.
func (b *Backend) sendKeepAlive(ctx context.Context, l *lease) error {
	sent := time.Now()
	r, err := do(ctx, b, true, func(ctx context.Context, client *clientv3.Client) (*clientv3.LeaseKeepAliveResponse, error) {
		return client.KeepAliveOnce(ctx, l.id)
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // its claims learn of it by their keys' watches, or by their next renewals
		l.gone = true
		b.retire(l)
		return errKeyGone
	case err != nil:
		return err
	}
	if until := sent.Add(min(time.Duration(r.TTL)*time.Second, l.ttl)); until.After(l.until) {
		l.until = until
	}
	return nil
}

// RenewBatch implements driver.BatchRenewer, with one keep-alive per etcd lease, usually one per TTL. Watches report deleted keys. Since a
// stalled member reports nothing, each call also reads some of the keys, in rotation.
func (b *Backend) RenewBatch(ctx context.Context, all []driver.Lease, results []driver.Renewal) {
	calls := make(map[*lease]*call)
	b.mu.Lock()
	for _, one := range all {
		if l := one.(*claim).lease; calls[l] == nil {
			calls[l] = b.refresh(l, true)
		}
	}
	for range min(len(all), confirmBatch) {
		b.confirmed++
		all[b.confirmed%len(all)].(*claim).missed()
	}
	b.mu.Unlock()
	for i, one := range all {
		c := one.(*claim)
		err := calls[c.lease].wait(ctx, true)
		b.mu.Lock()
		switch {
		case c.ended != nil:
			results[i].Err = c.ended
		case err != nil:
			results[i].Err = err
		default:
			results[i].Until = c.lease.until
		}
		b.mu.Unlock()
	}
}
