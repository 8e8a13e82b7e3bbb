package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/lockport/lockport/driver"
)

// lease is a lease of etcd that all claims of one TTL share. Nobody renews it for its own sake: the claims on it do, and with the last
// of them it ends.
type lease struct {
	id  int64
	ttl time.Duration

	keys map[string]struct{} // that claims have; guarded by Backend.mu

	// Guarded by leases.mu.
	until   time.Time // valid until then, by a request that was confirmed
	retired bool      // takes no more claims: one of them may arrive late, and must not find the lease alive for ever
	gone    bool      // etcd has said that it does not know it
	asking  *keeping  // a keep-alive under way
}

// leases keeps the lease of each TTL.
type leases struct {
	b *Backend

	mu       sync.Mutex
	current  map[time.Duration]*lease
	granting map[time.Duration]chan struct{} // closed when the grant under way is over
	beats    *heartbeat                      // nil: not running
	closed   bool
}

// keeping is a keep-alive of a lease under way, for whoever wants one.
type keeping struct {
	lease *lease
	sent  time.Time
	done  chan struct{}
	err   error // once done is closed
}

// A lease is used as it is while freshFor of its TTL has passed since it was last confirmed; then each use asks for a keep-alive too, in
// the same flight. When less than spentBelow of it is left it might end before the claim arrives, and another is taken.
const (
	freshFor   = 3 // a third
	spentBelow = 4 // a quarter
)

// take returns a lease for a new claim, and a keep-alive if one was necessary. Its errors are classified: nothing was claimed.
func (ls *leases) take(ctx context.Context, ttl time.Duration) (*lease, *keeping, error) {
	for {
		ls.mu.Lock()
		if l := ls.current[ttl]; l != nil && !l.gone && !l.retired && time.Until(l.until) > l.ttl/spentBelow {
			k := ls.freshen(l)
			ls.mu.Unlock()
			return l, k, nil
		}
		granting := ls.granting[ttl]
		mine := granting == nil
		if mine {
			granting = make(chan struct{})
			ls.granting[ttl] = granting
		}
		ls.mu.Unlock()
		if mine {
			l, err := ls.grant(ctx, ttl)
			ls.mu.Lock()
			if err == nil {
				ls.current[ttl] = l
			}
			delete(ls.granting, ttl)
			close(granting)
			ls.mu.Unlock()
			return l, nil, err
		}
		select {
		case <-granting:
		case <-ctx.Done():
			return nil, nil, classify(ctx, ctx.Err(), false)
		}
	}
}

// grant asks for a new lease. One that nobody hears of ends with its TTL.
func (ls *leases) grant(ctx context.Context, ttl time.Duration) (*lease, error) {
	w, err := ls.b.link.wires(ctx)
	if err != nil {
		return nil, err
	}
	var t trip
	sent := time.Now()
	r, err := w.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: int64(ttl / time.Second)}, grpc.Peer(&t.peer))
	if err != nil {
		if t.sent() {
			return nil, classifyRead(ctx, err) // it may be there, but nothing is attached to it
		}
		return nil, ls.b.link.fault(ctx, w, &t, err)
	}
	granted := time.Duration(r.TTL) * time.Second
	if granted > ttl {
		return nil, fmt.Errorf("%w: the TTL %v is under the server's minimum of %v: use a longer TTL, or shorten etcd's --election-timeout, which sets that minimum",
			driver.ErrRefused, ttl, granted)
	}
	return &lease{id: r.ID, ttl: granted, keys: make(map[string]struct{}), until: sent.Add(granted)}, nil
}

// retire ends the use of l for new claims.
func (ls *leases) retire(l *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.retired = true
	ls.forget(l)
}

// forget drops l as the current one. The mutex is held.
func (ls *leases) forget(l *lease) {
	for ttl, have := range ls.current {
		if have == l {
			delete(ls.current, ttl)
		}
	}
}

// lost notes that etcd does not know l any more.
func (ls *leases) lost(l *lease) {
	ls.mu.Lock()
	first := !l.gone
	l.gone = true
	ls.forget(l)
	ls.mu.Unlock()
	if first {
		ls.b.leaseGone(l)
	}
}

// validity is until when l is valid; zero: it has ended.
func (ls *leases) validity(l *lease) time.Time {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.gone {
		return time.Time{}
	}
	return l.until
}

// keep asks for a keep-alive of l, or joins the one under way.
func (ls *leases) keep(l *lease) *keeping {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.ask(l)
}

// keepFresh is keep for a lease that was not confirmed lately, and nil for others.
func (ls *leases) keepFresh(l *lease) *keeping {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.freshen(l)
}

func (ls *leases) freshen(l *lease) *keeping {
	if time.Until(l.until) >= l.ttl-l.ttl/freshFor {
		return nil
	}
	return ls.ask(l)
}

// ask is keep. The mutex is held.
func (ls *leases) ask(l *lease) *keeping {
	if l.asking != nil && (ls.beats == nil || time.Since(l.asking.sent) < l.ttl/spentBelow) {
		return l.asking
	}
	if l.asking != nil { // whoever waits for it does not break its stream
		ls.beats.stream.cancel()
		ls.beats = nil
	}
	k := &keeping{lease: l, sent: time.Now(), done: make(chan struct{})}
	if ls.closed {
		k.err = errClosed
		close(k.done)
		return k
	}
	if ls.beats == nil {
		ls.beats = ls.open()
	}
	l.asking = k
	ls.beats.waiting = append(ls.beats.waiting, k)
	ls.beats.stream.put(&pb.LeaseKeepAliveRequest{ID: l.id})
	return k
}

// heartbeat is the stream on which keep-alives go. etcd answers them in order.
type heartbeat struct {
	stream  *stream[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]
	waiting []*keeping
}

// open opens a heartbeat. The mutex is held, so that nothing can be received before it is complete.
func (ls *leases) open() *heartbeat {
	h := new(heartbeat)
	type s = stream[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]
	h.stream = openStream(ls.b.link.ctx, &ls.b.running,
		func(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error) {
			w, err := ls.b.link.wires(ctx)
			if err != nil {
				return nil, err
			}
			return w.lease.LeaseKeepAlive(ctx)
		},
		func(_ *s, r *pb.LeaseKeepAliveResponse) { ls.heard(h, r) },
		func(_ *s, err error) { ls.fell(h, err) })
	return h
}

// heard takes an answer.
func (ls *leases) heard(h *heartbeat, r *pb.LeaseKeepAliveResponse) {
	ls.mu.Lock()
	if len(h.waiting) == 0 || h.waiting[0].lease.id != r.ID {
		ls.mu.Unlock()
		h.stream.cancel() // out of step
		return
	}
	k := h.waiting[0]
	h.waiting = h.waiting[1:]
	k.lease.asking = nil
	if r.TTL > 0 {
		if until := k.sent.Add(min(time.Duration(r.TTL)*time.Second, k.lease.ttl)); until.After(k.lease.until) {
			k.lease.until = until
		}
	} else {
		k.err = errLeaseGone
	}
	ls.mu.Unlock()
	if k.err != nil {
		ls.lost(k.lease)
	}
	close(k.done)
}

var errLeaseGone = fmt.Errorf("%w: etcd has ended the lock's lease: it expired, or was revoked", driver.ErrLost)

// fell ends a heartbeat that broke, with what it was asked.
func (ls *leases) fell(h *heartbeat, err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.beats == h {
		ls.beats = nil
	}
	for _, k := range h.waiting {
		if k.lease.asking == k {
			k.lease.asking = nil
		}
		k.err = classify(context.Background(), err, true)
		close(k.done)
	}
	h.waiting = nil
}

// wait waits until k, which may be nil, is answered. A keep-alive that is not answered in time breaks its stream, so that the next goes
// another way.
func (ls *leases) wait(ctx context.Context, k *keeping) error {
	if k == nil {
		return nil
	}
	select {
	case <-k.done:
		return k.err
	case <-ctx.Done():
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if h := ls.beats; h != nil && k.lease.asking == k && time.Since(k.sent) > overdue {
		h.stream.cancel()
		ls.beats = nil
	}
	return classify(ctx, ctx.Err(), true)
}

// close refuses further keep-alives.
func (ls *leases) close() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closed = true
}
