package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// Backend is one client of a Server. It implements driver.Waiter, BatchRenewer, Requeuer, Inspector, Breaker and Checker. All methods may be called
// concurrently.
type Backend struct {
	server *Server
	open   context.Context // ends with Close
	close  context.CancelFunc
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
	b := &Backend{server: o.Server}
	b.open, b.close = context.WithCancel(context.Background())
	return b
}

// Server returns the server that keeps the locks.
func (b *Backend) Server() *Server { return b.server }

// noticeBound is what RemovalNotice states. The callback has run when Break or Lose returns; the rest is for the scheduler.
const noticeBound = 10 * time.Millisecond

// capabilities are those of every Backend.
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
	RemovalNotice: func(time.Duration) time.Duration { return noticeBound },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// begin says why a call cannot reach the server, if it cannot.
func (b *Backend) begin(ctx context.Context) error {
	if b.open.Err() != nil {
		return fmt.Errorf("%w: %w", driver.ErrRefused, errClosed)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return nil
}

// call runs f, which has the server's mutex, unless ctx or the client has ended.
func (b *Backend) call(ctx context.Context, f func(s *Server, now time.Time) error) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	b.server.lock()
	defer b.server.unlock()
	return f(b.server, time.Now())
}

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	sent := time.Now()
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	c, err := b.server.enter(ctx, b, req, sent, req.Queue)
	if err != nil {
		return nil, err
	}
	return b.server.outcome(c)
}

// Wait implements driver.Waiter. A claim whose ctx ends keeps its place, and may be granted, until it is abandoned.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	sent := time.Now()
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	c, err := b.server.enter(ctx, b, req, sent, true)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.granted:
		return b.server.outcome(c)
	case <-ctx.Done():
		return nil, unknown(ctx.Err())
	case <-b.open.Done():
		return nil, unknown(errClosed)
	}
}

// outcome is what the client of c learns now.
func (s *Server) outcome(c *claim) (driver.Lease, error) {
	s.lock()
	defer s.unlock()
	switch c.state {
	case held:
		return c, nil
	case waiting:
		return nil, c.entry.held(time.Now())
	}
	return nil, unknown(errors.New("the claim ended before its client heard of it"))
}

// Abandon implements driver.Backend.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	return b.call(ctx, func(s *Server, now time.Time) error {
		if c := s.claims[claimKey{req.Name, req.Owner}]; c != nil {
			s.end(c, nil, now)
		}
		return nil
	})
}

// RenewBatch implements driver.BatchRenewer.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	sent := time.Now()
	err := b.call(ctx, func(s *Server, now time.Time) error {
		for i, l := range leases {
			results[i].Until, results[i].Err = s.renew(l.(*claim), sent, now)
		}
		return nil
	})
	if err != nil {
		for i := range results {
			results[i].Err = err
		}
	}
}

// Requeue implements driver.Requeuer, in one step as others see it: req is put behind old first, and so behind all that wait.
func (b *Backend) Requeue(ctx context.Context, old driver.Lease, req driver.Request) (lease driver.Lease, gone, err error) {
	sent := time.Now()
	if err := b.begin(ctx); err != nil {
		return nil, err, err
	}
	c, err := b.server.enter(ctx, b, req, sent, true)
	if err != nil {
		return nil, err, err
	}
	gone = old.Release(context.WithoutCancel(ctx))
	lease, err = b.server.outcome(c)
	return lease, gone, err
}

// Close implements driver.Backend. The claims that this client holds last until their TTL has passed, those that wait are gone,
// and its callbacks are not called any more.
func (b *Backend) Close() error {
	s := b.server
	s.lock()
	defer s.unlock()
	b.close()
	for _, c := range s.claims {
		if c.backend == b && c.state == waiting {
			s.end(c, nil, time.Now())
		}
	}
	return nil
}

// errClosed is why a closed Backend refuses.
var errClosed = errors.New("the backend is closed")

// unknown says that the outcome is unknown because of err.
func unknown(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnknown, err) }
