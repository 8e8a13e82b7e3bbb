package memorytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/driver"
)

// Backend is a [memory.Backend] with faults between it and its server. It implements what that does. All methods may be called concurrently.
type Backend struct {
	*Faults // never nil

	server *memory.Server
	client *memory.Backend
	close  sync.Once
	closed chan struct{}
}

var _ interface {
	driver.Backend
	driver.Waiter
	driver.BatchRenewer
	driver.Requeuer
	driver.Inspector
	driver.Breaker
	driver.Checker
} = (*Backend)(nil)

// NewBackend returns a client of server, for lockport.New. A nil server is a new one, nil faults are its own.
func NewBackend(server *memory.Server, faults *Faults) *Backend {
	if server == nil {
		server = memory.NewServer()
	}
	if faults == nil {
		faults = new(Faults)
	}
	return &Backend{Faults: faults, server: server, client: memory.NewBackend(memory.Options{Server: server}), closed: make(chan struct{})}
}

// New is lockport.New of NewBackend(server, faults).
func New(server *memory.Server, faults *Faults, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.New(NewBackend(server, faults), opts...)
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
func (l *lease) Renew(ctx context.Context) (until time.Time, err error) {
	err = l.b.call(ctx, Renew, func(late time.Duration) (err error) {
		until, err = l.Lease.Renew(ctx)
		until = until.Add(-late)
		return err
	})
	return until, err
}

// Release implements driver.Lease.
func (l *lease) Release(ctx context.Context) error {
	return l.b.call(ctx, Release, func(time.Duration) error { return l.Lease.Release(ctx) })
}

// heard is req as its client hears of it: the server's callbacks arrive if and when they get through.
func (b *Backend) heard(req driver.Request) driver.Request {
	tell := func(callback func()) {
		b.say(func() {
			select {
			case <-b.closed:
			default:
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

// claim makes a claim by one call, and gives no lease away whose reply was lost.
func (b *Backend) claim(ctx context.Context, claim func() (driver.Lease, error)) (driver.Lease, error) {
	var granted driver.Lease
	err := b.call(ctx, Claim, func(late time.Duration) error {
		l, err := claim()
		granted = &lease{l, b, late}
		return err
	})
	if err != nil {
		return nil, err
	}
	return granted, nil
}

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.claim(ctx, func() (driver.Lease, error) { return b.client.TryAcquire(ctx, b.heard(req)) })
}

// Wait implements driver.Waiter. A claim whose ctx ends keeps its place, and may be granted, until it is abandoned.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.claim(ctx, func() (driver.Lease, error) {
		waiting, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		broken, over := b.breaks(), make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-broken:
				stop(errDown)
			case <-over:
			}
		}()
		l, err := b.client.Wait(waiting, b.heard(req))
		if err != nil && ctx.Err() == nil && errors.Is(context.Cause(waiting), errDown) {
			err = unknown(errDown)
		}
		return l, err
	})
}

// Abandon implements driver.Backend.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	return b.call(ctx, Abandon, func(time.Duration) error { return b.client.Abandon(ctx, req) })
}

// RenewBatch implements driver.BatchRenewer. A fault for Renew strikes the whole batch.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	err := b.call(ctx, Renew, func(late time.Duration) error {
		inner := make([]driver.Lease, len(leases))
		for i, l := range leases {
			inner[i] = l.(*lease).Lease
		}
		b.client.RenewBatch(ctx, inner, results)
		for i := range results {
			results[i].Until = results[i].Until.Add(-late)
		}
		return nil
	})
	if err != nil {
		for i := range results {
			results[i] = driver.Renewal{Err: err}
		}
	}
}

// Requeue implements driver.Requeuer. A fault for Release or, if there is none, for Claim strikes it.
func (b *Backend) Requeue(ctx context.Context, old driver.Lease, req driver.Request) (next driver.Lease, gone, err error) {
	kind := Claim
	if b.pending(Release) {
		kind = Release
	}
	callErr := b.call(ctx, kind, func(late time.Duration) error {
		var l driver.Lease
		if l, gone, err = b.client.Requeue(ctx, old.(*lease).Lease, b.heard(req)); err == nil {
			next = &lease{l, b, late}
		}
		return nil
	})
	if callErr != nil {
		return nil, callErr, callErr
	}
	return next, gone, err
}

// Close implements driver.Backend. The claims that this client holds last until their TTL has passed, those that wait are gone,
// and its callbacks are not called any more.
func (b *Backend) Close() error {
	b.close.Do(func() { close(b.closed) })
	return b.client.Close()
}

// Inspect implements driver.Inspector.
func (b *Backend) Inspect(ctx context.Context, name string) (st driver.Status, err error) {
	err = b.call(ctx, Look, func(time.Duration) (err error) {
		st, err = b.client.Inspect(ctx, name)
		return err
	})
	return st, err
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) (all []driver.Status, err error) {
	err = b.call(ctx, Look, func(time.Duration) (err error) {
		all, err = b.client.List(ctx, prefix)
		return err
	})
	return all, err
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.call(ctx, Look, func(time.Duration) error { return b.client.Break(ctx, name, owner) })
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	err := b.call(ctx, Look, func(time.Duration) error { return nil })
	if errors.Is(err, driver.ErrUnknown) { // it would have changed nothing
		err = fmt.Errorf("%w: no answer: %w", driver.ErrUnavailable, cmp.Or(ctx.Err(), errors.New("the reply was lost")))
	}
	return nil, err
}
