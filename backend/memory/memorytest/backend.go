package memorytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/driver"
)

// Backend is a [memory.Backend] with faults between it and its server. It implements what that does. All methods may be called concurrently.
type Backend struct {
	*Faults // never nil

	server *memory.Server
	client *memory.Backend
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
	driver.Checker
	driver.Attacher
} = (*Backend)(nil)

// NewBackend returns a client of server, for lockport.New. A nil server is a new one, nil faults are its own.
func NewBackend(server *memory.Server, faults *Faults) *Backend {
	if server == nil {
		server = memory.NewServer()
	}
	if faults == nil {
		faults = new(Faults)
	}
	b := &Backend{Faults: faults, server: server, client: memory.NewBackend(memory.Options{Server: server})}
	b.open, b.close = context.WithCancel(context.Background())
	return b
}

// Server returns the server that keeps the locks.
func (b *Backend) Server() *memory.Server { return b.server }

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return b.client.Capabilities() }

// lease is a lease of the memory backend's. Its validity counts from when the request was sent, which reached the server late.
type lease struct {
	driver.Lease
	b    *Backend
	late time.Duration // of the claim
}

// Grant implements driver.Lease.
func (l *lease) Grant() driver.Grant {
	g := l.Lease.Grant()
	g.Until = g.Until.Add(-l.late)
	return g
}

// Renew implements driver.Lease.
func (l *lease) Renew(ctx context.Context) (time.Time, error) {
	return call(ctx, l.b, Renew, func(ctx context.Context, late time.Duration) (time.Time, error) {
		until, err := driver.Renew(ctx, l.b.client, l.Lease)
		return until.Add(-late), err
	})
}

// Release implements driver.Lease.
func (l *lease) Release(ctx context.Context) error { return l.b.do(ctx, Release, l.Lease.Release) }

// do makes a call that has no other result than an error.
func (b *Backend) do(ctx context.Context, kind Call, f func(context.Context) error) error {
	_, err := call(ctx, b, kind, func(ctx context.Context, _ time.Duration) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// heard is req as its client hears of it: the server's callbacks arrive if and when they get through.
func (b *Backend) heard(req driver.Request) driver.Request {
	tell := func(callback func()) {
		b.say(func() {
			if b.open.Err() == nil {
				callback()
			}
		})
	}
	if lost := req.Lost; lost != nil {
		req.Lost = func(err error) { tell(func() { lost(err) }) }
	}
	if contended := req.Contended; contended != nil {
		req.Contended = func() { tell(contended) }
	}
	return req
}

// claim makes a claim by one call.
func (b *Backend) claim(ctx context.Context, req driver.Request, f func(context.Context, driver.Request) (driver.Lease, error)) (driver.Lease, error) {
	return call(ctx, b, Claim, func(ctx context.Context, late time.Duration) (driver.Lease, error) {
		l, err := f(ctx, b.heard(req))
		if err != nil {
			return nil, err
		}
		return &lease{l, b, late}, nil
	})
}

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.claim(ctx, req, b.client.TryAcquire)
}

// Wait implements driver.Waiter. A claim whose ctx ends keeps its place, and may be granted, until it is abandoned.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.claim(ctx, req, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
		l, err := b.client.Wait(ctx, req)
		if err != nil && ctx.Err() != nil {
			err = unknown(context.Cause(ctx)) // which may be that the connection broke
		}
		return l, err
	})
}

// Abandon implements driver.Backend.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	return b.do(ctx, Abandon, func(ctx context.Context) error { return b.client.Abandon(ctx, req) })
}

// RenewBatch implements driver.BatchRenewer. A fault for Renew strikes the whole batch.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	renewed, err := call(ctx, b, Renew, func(ctx context.Context, late time.Duration) ([]driver.Renewal, error) {
		inner, renewed := make([]driver.Lease, len(leases)), make([]driver.Renewal, len(leases))
		for i, l := range leases {
			inner[i] = l.(*lease).Lease
		}
		b.client.RenewBatch(ctx, inner, renewed)
		for i := range renewed {
			renewed[i].Until = renewed[i].Until.Add(-late)
		}
		return renewed, nil
	})
	if copy(results, renewed); err != nil {
		for i := range results {
			results[i] = driver.Renewal{Err: err}
		}
	}
}

// Requeue implements driver.Requeuer. A fault for Claim strikes it.
func (b *Backend) Requeue(ctx context.Context, old driver.Lease, req driver.Request) (next driver.Lease, gone, err error) {
	type outcome struct {
		next      driver.Lease
		gone, err error
	}
	o, err := call(ctx, b, Claim, func(ctx context.Context, late time.Duration) (outcome, error) {
		l, gone, err := b.client.Requeue(ctx, old.(*lease).Lease, b.heard(req))
		if err != nil {
			return outcome{nil, gone, err}, nil
		}
		return outcome{&lease{l, b, late}, gone, nil}, nil
	})
	if err != nil {
		return nil, err, err
	}
	return o.next, o.gone, o.err
}

// Detach implements driver.Attacher. A fault for Renew strikes it.
func (b *Backend) Detach(ctx context.Context, l driver.Lease) error {
	return b.do(ctx, Renew, func(ctx context.Context) error { return b.client.Detach(ctx, l.(*lease).Lease) })
}

// Attach implements driver.Attacher. A fault for Claim strikes it.
func (b *Backend) Attach(ctx context.Context, req driver.Request, owner string, token uint64) (driver.Lease, error) {
	return b.claim(ctx, req, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
		return b.client.Attach(ctx, req, owner, token)
	})
}

// Close implements driver.Backend. The claims that this client holds last until their TTL has passed, those that wait are gone,
// and its callbacks are not called any more.
func (b *Backend) Close() error {
	b.close()
	return b.client.Close()
}

// Inspect implements driver.Inspector.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	return call(ctx, b, Look, func(ctx context.Context, _ time.Duration) (driver.Status, error) { return b.client.Inspect(ctx, name) })
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	return call(ctx, b, Look, func(ctx context.Context, _ time.Duration) ([]driver.Status, error) { return b.client.List(ctx, prefix) })
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.do(ctx, Look, func(ctx context.Context) error { return b.client.Break(ctx, name, owner) })
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	err := b.do(ctx, Look, func(context.Context) error { return nil })
	if errors.Is(err, driver.ErrUnknown) { // it would have changed nothing
		err = fmt.Errorf("%w: no answer: %w", driver.ErrUnavailable, cmp.Or(ctx.Err(), errBroken))
	}
	return nil, err
}
