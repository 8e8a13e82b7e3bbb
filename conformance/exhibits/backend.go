package exhibits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// Backend is a backend at one end of a Wire. It keeps the contract, whatever happens to the wire.
type Backend struct {
	wire   *Wire
	inner  *memory.Backend
	direct bool
	untold bool // holders are not told that the server ended a claim, but by its renewal
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return b.inner.Capabilities() }

// Close implements driver.Backend.
func (b *Backend) Close() error {
	b.wire.mu.Lock()
	delete(b.wire.backends, b)
	b.wire.mu.Unlock()
	return b.inner.Close()
}

// send sends over the wire, or around it.
func (b *Backend) send(ctx context.Context, op conformance.Op, effect func()) error {
	if b.direct {
		effect()
		return nil
	}
	return b.wire.send(ctx, op, effect)
}

// hear has callbacks come over the wire.
func (b *Backend) hear(req driver.Request) driver.Request {
	if b.direct {
		return req
	}
	if b.untold {
		req.Lost = nil
	}
	if lost := req.Lost; lost != nil {
		req.Lost = func(err error) { b.wire.deliver(func() { lost(err) }) }
	}
	if contended := req.Contended; contended != nil {
		req.Contended = func() { b.wire.deliver(contended) }
	}
	return req
}

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.acquire(ctx, req, b.inner.TryAcquire)
}

// acquire makes a claim by f, whose validity counts from when it was sent.
func (b *Backend) acquire(ctx context.Context, req driver.Request,
	f func(context.Context, driver.Request) (driver.Lease, error)) (driver.Lease, error) {
	type reply struct {
		lease driver.Lease
		err   error
	}
	replies := make(chan reply, 1)
	sent := time.Now()
	heard := b.hear(req)
	err := b.send(ctx, conformance.OpAcquire, func() {
		// Once it is sent it arrives, whatever becomes of who sent it.
		l, err := f(context.WithoutCancel(ctx), heard)
		replies <- reply{l, err}
	})
	if err != nil {
		return nil, err
	}
	r := <-replies
	if r.err != nil {
		return nil, r.err
	}
	return b.lease(r.lease, req, sent), nil
}

func (b *Backend) lease(inner driver.Lease, req driver.Request, sent time.Time) driver.Lease {
	g := inner.Grant()
	if until := sent.Add(req.TTL); until.Before(g.Until) {
		g.Until = until
	}
	return &lease{b: b, inner: inner, grant: g, req: req, ttl: req.TTL}
}

// Wait implements driver.Waiter: it begins to wait as TryAcquire claims, and looks again with a request of its own, from which
// the validity counts, when it was granted the name.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	req.Queue = true
	l, err := b.acquire(ctx, req, b.inner.TryAcquire)
	for isHeld(err) {
		if err := b.granted(ctx, req); err != nil {
			return nil, unknown(err)
		}
		if l, err = b.acquire(ctx, req, b.inner.TryAcquire); err != nil && !isHeld(err) {
			return nil, unknown(err)
		}
	}
	return l, err
}

// unknown is err for a claim that has its place in the queue already, whatever became of the last request.
func unknown(err error) error {
	if errors.Is(err, driver.ErrUnknown) {
		return err
	}
	return fmt.Errorf("%w: %v", driver.ErrUnknown, err)
}

// granted blocks until the server grants a queued claim.
func (b *Backend) granted(ctx context.Context, req driver.Request) error {
	b.wire.mu.Lock()
	cuts, severed := b.wire.cuts, b.wire.severed
	b.wire.mu.Unlock()
	if severed && !b.direct {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, errGone)
	}
	if b.direct {
		cuts = nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan error, 1)
	go func() {
		_, err := b.inner.Wait(ctx, b.hear(req))
		over <- err
	}()
	select {
	case err := <-over:
		if err != nil || b.direct {
			return err
		}
		return b.wire.back(ctx, cuts, 0)
	case <-cuts:
		cancel()
		<-over
		return fmt.Errorf("%w: %w", driver.ErrUnknown, errCut)
	}
}

// Abandon implements driver.Backend.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	done := make(chan error, 1)
	err := b.send(ctx, conformance.OpAny, func() { done <- b.inner.Abandon(context.WithoutCancel(ctx), req) })
	if err != nil {
		return err
	}
	return <-done
}

// RenewBatch implements driver.BatchRenewer.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	inner := make([]driver.Lease, len(leases))
	for i, l := range leases {
		inner[i] = core(l).inner
	}
	sent := time.Now()
	replies := make(chan []driver.Renewal, 1)
	err := b.send(ctx, conformance.OpRenew, func() {
		reply := make([]driver.Renewal, len(inner))
		b.inner.RenewBatch(context.WithoutCancel(ctx), inner, reply)
		replies <- reply
	})
	if err != nil {
		for i := range results {
			results[i] = driver.Renewal{Err: err}
		}
		return
	}
	for i, r := range <-replies {
		results[i] = r
		if r.Err == nil {
			results[i].Until = core(leases[i]).until(sent)
		}
	}
}

// Requeue implements driver.Requeuer.
func (b *Backend) Requeue(ctx context.Context, old driver.Lease, req driver.Request) (driver.Lease, error, error) {
	var released error
	l, err := b.acquire(ctx, req, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
		l, gone, err := b.inner.Requeue(ctx, core(old).inner, req)
		released = gone
		return l, err
	})
	if err != nil && !isHeld(err) {
		return nil, err, err
	}
	return l, released, err
}

// Inspect implements driver.Inspector.
func (b *Backend) Inspect(ctx context.Context, name string) (st driver.Status, err error) {
	st, err = over(ctx, b, func() (driver.Status, error) { return b.inner.Inspect(ctx, name) })
	st.Foreign = st.Held && driver.OwnerClient(st.Owner) == ""
	return st, err
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	return over(ctx, b, func() ([]driver.Status, error) { return b.inner.List(ctx, prefix) })
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	_, err := over(ctx, b, func() (struct{}, error) { return struct{}{}, b.inner.Break(ctx, name, owner) })
	return err
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	notices, err := over(ctx, b, func() ([]driver.Notice, error) { return b.inner.Check(ctx) })
	if errors.Is(err, driver.ErrUnknown) { // it would have changed nothing
		err = fmt.Errorf("%w: no answer", driver.ErrUnavailable)
	}
	return notices, err
}

// over makes any other request over the wire.
func over[T any](ctx context.Context, b *Backend, f func() (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	replies := make(chan reply, 1)
	if err := b.send(ctx, conformance.OpAny, func() { v, err := f(); replies <- reply{v, err} }); err != nil {
		var none T
		return none, err
	}
	r := <-replies
	return r.value, r.err
}

// lease is a lease at one end of a Wire.
type lease struct {
	b     *Backend
	inner driver.Lease
	grant driver.Grant
	req   driver.Request
	ttl   time.Duration
}

// core returns the lease, also from inside a broken one.
func core(l driver.Lease) *lease { return l.(interface{ core() *lease }).core() }

func (l *lease) core() *lease { return l }

// until is the validity of a renewal that was sent at sent.
func (l *lease) until(sent time.Time) time.Time {
	if until := sent.Add(l.ttl); until.After(l.grant.Until) {
		return until
	}
	return l.grant.Until
}

// Grant implements driver.Lease.
func (l *lease) Grant() driver.Grant { return l.grant }

// Renew implements driver.Lease.
func (l *lease) Renew(ctx context.Context) (time.Time, error) {
	result := make([]driver.Renewal, 1)
	l.b.RenewBatch(ctx, []driver.Lease{l}, result)
	return result[0].Until, result[0].Err
}

// Release implements driver.Lease.
func (l *lease) Release(ctx context.Context) error {
	done := make(chan error, 1)
	err := l.b.send(ctx, conformance.OpRelease, func() { done <- l.inner.Release(context.WithoutCancel(ctx)) })
	if err != nil {
		return err
	}
	return <-done
}

func isHeld(err error) bool { return errors.Is(err, driver.ErrHeld) }
