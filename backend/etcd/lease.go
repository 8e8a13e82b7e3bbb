package etcd

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// lease is a lease of etcd that all claims of one TTL share. Nobody renews it for its own sake: the claims on it do, and with the last
// of them it ends. The backend's mutex guards it.
type lease struct {
	id     clientv3.LeaseID
	ttl    time.Duration
	keys   map[string]struct{} // that claims have
	until  time.Time           // valid until then, by a request that was confirmed
	gone   bool                // etcd has said that it does not know it
	asking *call               // the last keep-alive under way
}

// A lease is used as it is while freshFor of its TTL has passed since it was last confirmed; then each use asks for a keep-alive too, at
// the same time. When less than spentBelow of it is left it might end before the claim arrives, and another is taken. A keep-alive that
// is not answered within silentFor of it is not waited for by others: the next goes to another member of etcd.
const (
	freshFor   = 3 // a third
	spentBelow = 4 // a quarter
	silentFor  = 6 // a sixth
)

// take returns a lease for a new claim. Its errors are classified: nothing was claimed. Of several that goroutines ask for at the same time one is
// used; the others, that nobody renews, end with their TTL.
func (b *Backend) take(ctx context.Context, ttl time.Duration) (*lease, error) {
	ttl = (ttl + time.Second - 1) / time.Second * time.Second
	if l := b.usable(ttl, nil); l != nil {
		return l, nil
	}
	fresh, err := b.grant(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return b.usable(ttl, fresh), nil
}

// grant has etcd make a lease. Its errors are classified.
func (b *Backend) grant(ctx context.Context, ttl time.Duration) (*lease, error) {
	var sent time.Time
	r, err := do(ctx, b, false, func(ctx context.Context, client *clientv3.Client) (*clientv3.LeaseGrantResponse, error) {
		sent = time.Now()
		return client.Grant(ctx, int64(ttl/time.Second))
	})
	if err != nil { // it may be there, but nothing is attached to it
		return nil, err
	}
	least := time.Duration(r.TTL) * time.Second
	if least > ttl {
		return nil, fmt.Errorf("%w: the TTL %v is under the server's minimum of %v: use a longer TTL, or shorten etcd's --election-timeout, which sets that minimum",
			driver.ErrRefused, ttl, least)
	}
	return &lease{id: r.ID, ttl: ttl, keys: make(map[string]struct{}), until: sent.Add(least)}, nil
}

// usable is the lease of ttl that can take a claim: the one in use, or else fresh, which may be nil.
func (b *Backend) usable(ttl time.Duration, fresh *lease) *lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.leases[ttl]; l != nil && time.Until(l.until) > l.ttl/spentBelow {
		return l
	}
	if fresh != nil {
		b.leases[ttl] = fresh
	}
	return fresh
}

// retire ends the use of l for new claims: one of those on it may arrive late, and must not find it alive for ever. The mutex is held.
func (b *Backend) retire(l *lease) {
	if b.leases[l.ttl] == l {
		delete(b.leases, l.ttl)
	}
}

// lost notes that etcd does not know l any more, and ends all claims on it.
func (b *Backend) lost(l *lease) {
	var all []*claim
	b.mu.Lock()
	if !l.gone {
		l.gone = true
		b.retire(l)
		for _, c := range b.claims {
			if c.lease == l && c.rev != 0 {
				all = append(all, c)
			}
		}
	}
	b.mu.Unlock()
	for _, c := range all {
		b.gone(c, errLeaseGone)
	}
}

// keep asks for a keep-alive of l, or joins the one under way. nil: l was confirmed lately, and must says no. The mutex is held.
func (b *Backend) keep(l *lease, must bool) *call {
	switch {
	case !must && time.Until(l.until) >= l.ttl-l.ttl/freshFor:
		return nil
	case l.asking != nil && time.Since(l.asking.began) < l.ttl/silentFor:
		return l.asking
	}
	l.asking = b.begin(func(k *call) error {
		err := b.keepAlive(l, k)
		if isGone(err) {
			b.lost(l)
			return errLeaseGone
		}
		return err
	})
	return l.asking
}

// keepAlive asks etcd to keep l alive, as k. The validity counts from before the request was sent.
func (b *Backend) keepAlive(l *lease, k *call) error {
	ctx, cancel := context.WithTimeout(b.ctx, l.ttl)
	defer cancel()
	r, err := do(ctx, b, true, func(ctx context.Context, client *clientv3.Client) (*clientv3.LeaseKeepAliveResponse, error) {
		return client.KeepAliveOnce(ctx, l.id)
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.asking == k {
		l.asking = nil
	}
	if err != nil {
		return err
	}
	if until := k.began.Add(min(time.Duration(r.TTL)*time.Second, l.ttl)); until.After(l.until) {
		l.until = until
	}
	return nil
}

// RenewBatch implements driver.BatchRenewer: a keep-alive for each lease of etcd, of which there is one for each TTL as a rule. Whether the
// keys are still there is what their watches tell; some keys, in turn, are read as well, since a member of etcd that has stopped tells nothing.
func (b *Backend) RenewBatch(ctx context.Context, all []driver.Lease, results []driver.Renewal) {
	said := make(map[*lease]*call)
	b.mu.Lock()
	for _, one := range all {
		if l := one.(*claim).lease; said[l] == nil {
			said[l] = b.keep(l, true)
		}
	}
	some := make([]*claim, min(len(all), readAtOnce))
	for i := range some {
		b.looked++
		some[i] = all[b.looked%len(all)].(*claim)
	}
	b.background(func() { b.confirm(some) })
	b.mu.Unlock()
	for i, one := range all {
		c := one.(*claim)
		err := said[c.lease].wait(ctx, true)
		b.mu.Lock()
		switch {
		case c.over == errReleased:
			results[i].Err = fmt.Errorf("%w: it was released", driver.ErrLost)
		case c.over != nil:
			results[i].Err = c.over
		case err != nil && !c.lease.until.After(c.until):
			results[i].Err = err
		default: // also where a keep-alive that an earlier renewal gave up was answered meanwhile
			c.until = c.lease.until
			results[i].Until = c.until
		}
		b.mu.Unlock()
	}
}
