package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

// Backend is one client of a Server. It implements driver.Waiter, BatchRenewer, Requeuer, Attacher, Inspector, Breaker and Checker. All methods may
// be called concurrently.
type Backend struct {
	server  *Server
	network Network
	closed  bool // guarded by the server's mutex
}

var _ interface {
	driver.Backend
	driver.Waiter
	driver.BatchRenewer
	driver.Requeuer
	driver.Inspector
	driver.Breaker
	driver.Attacher
	driver.Checker
} = (*Backend)(nil)

// NewBackend returns a client of o.Server, for lockport.New.
func NewBackend(o Options) *Backend {
	if o.Server == nil {
		o.Server = NewServer()
	}
	if o.Network == nil {
		o.Network = direct{}
	}
	return &Backend{server: o.Server, network: o.Network}
}

// Server returns the server that keeps the locks.
func (b *Backend) Server() *Server { return b.server }

var capabilities = driver.Capabilities{
	Backend:       "memory",
	Ends:          driver.EndsTTL,
	Token:         driver.TokenData,
	Fair:          driver.FairFIFO,
	Wake:          driver.WakeQueue,
	Failover:      driver.FailoverNone,
	Prompt:        true,
	Queue:         true,
	Contended:     true,
	Shared:        true,
	Permits:       true,
	Detach:        true,
	RemovalNotice: func(time.Duration) time.Duration { return 10 * time.Millisecond }, // for the scheduler: Break and Lose tell before they return
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// call runs f at the server, across the network.
func (b *Backend) call(ctx context.Context, method string, f func(s *Server, now time.Time) error) error {
	return b.network.Call(ctx, method, func(ctx context.Context) error { return b.serve(ctx, f) })
}

// serve runs f with the server's mutex, unless ctx or the client has ended. It checks that under the mutex: after Abandon, a claim whose context had
// ended must not be granted.
func (b *Backend) serve(ctx context.Context, f func(s *Server, now time.Time) error) error {
	s := b.server
	s.mu.Lock()
	defer s.unlock()
	if b.closed {
		return fmt.Errorf("%w: the backend is closed", driver.ErrRefused)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return f(s, time.Now())
}

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.claim(ctx, "TryAcquire", req, false)
}

// Wait implements driver.Waiter. A claim whose ctx ends keeps its place, and may be granted, until it is abandoned.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.claim(ctx, "Wait", req, true)
}

func (b *Backend) claim(ctx context.Context, method string, req driver.Request, wait bool) (lease driver.Lease, err error) {
	sent := time.Now()
	err = b.network.Call(ctx, method, func(ctx context.Context) error {
		var c *claim
		err := b.serve(ctx, func(s *Server, now time.Time) (err error) {
			if c, err = s.enter(b, req, wait || req.Queue, sent, now); err == nil && !(wait && c.isWaiting()) {
				lease, err = c.outcome(now)
			}
			return err
		})
		if err != nil || lease != nil {
			return err
		}
		select {
		case <-c.waits:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		}
		b.server.mu.Lock()
		defer b.server.unlock()
		lease, err = c.outcome(time.Now())
		return err
	})
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// Abandon implements driver.Backend.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	return b.call(ctx, "Abandon", func(s *Server, now time.Time) error {
		if c := s.entry(keyOf(req.Name, req.Permits > 0), now).find(req.Owner); c != nil {
			s.end(c, nil, now)
		}
		return nil
	})
}

// RenewBatch implements driver.BatchRenewer.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	sent := time.Now()
	err := b.call(ctx, "RenewBatch", func(_ *Server, now time.Time) error {
		for i, l := range leases {
			results[i].Until, results[i].Err = l.(*claim).renew(sent, now)
		}
		return nil
	})
	if err != nil {
		for i := range results {
			results[i] = driver.Renewal{Err: err}
		}
	}
}

// Requeue implements driver.Requeuer in one step. req queues before old is released, and so behind all waiters.
func (b *Backend) Requeue(ctx context.Context, old driver.Lease, req driver.Request) (lease driver.Lease, gone, err error) {
	sent := time.Now()
	failed := b.call(ctx, "Requeue", func(s *Server, now time.Time) error {
		c, failed := s.enter(b, req, true, sent, now)
		if failed == nil {
			gone = old.(*claim).release(now)
			lease, err = c.outcome(now)
		}
		return failed
	})
	if failed != nil {
		return nil, failed, failed
	}
	return lease, gone, err
}

// Detach implements driver.Attacher.
func (b *Backend) Detach(ctx context.Context, lease driver.Lease) error {
	return b.call(ctx, "Detach", func(_ *Server, now time.Time) error {
		_, err := lease.(*claim).renew(now, now)
		return err
	})
}

// Attach implements driver.Attacher.
func (b *Backend) Attach(ctx context.Context, req driver.Request, owner string, token uint64) (lease driver.Lease, err error) {
	sent := time.Now()
	err = b.call(ctx, "Attach", func(s *Server, now time.Time) error {
		e := s.entry(keyOf(req.Name, false), now)
		if c := e.find(req.Owner); c != nil {
			lease = c
			return nil
		}
		old := e.find(owner)
		if old == nil || !old.isHeld() || old.grant.Token != token {
			return fmt.Errorf("%w: the detached claim has ended, or was attached", driver.ErrLost)
		}
		c := &claim{backend: b, req: req, entry: e, since: old.since, expires: now.Add(req.TTL)}
		c.grant = driver.Grant{Token: token, Until: sent.Add(req.TTL), Contended: len(e.queue()) > 0}
		e.claims[slices.Index(e.claims, old)] = c
		s.arm(e)
		lease = c
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// Close implements driver.Backend. This client's holds last until their TTL has passed, and its waiting claims end. No callback begins any more, but
// one that is on its way may still arrive.
func (b *Backend) Close() error {
	s := b.server
	s.mu.Lock()
	defer s.unlock()
	b.closed = true
	for _, e := range s.names {
		for _, c := range slices.Clone(e.queue()) {
			if c.backend == b { // waiting, or granted as the one before it ended
				s.end(c, nil, time.Now())
			}
		}
	}
	return nil
}
