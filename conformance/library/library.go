// Package library makes a driver of a lock library's own calls, so that the suite can be run on it. The driver adds nothing to them: no retry, no renewal,
// no repair. It is for package conformance alone: where a library cannot undo a claim, the driver can only wait for its end.
package library

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Client is an open library. Its functions are safe for concurrent use.
type Client struct {
	// Take claims a name once, as a user of the library would, or waits for it. An error that is driver.ErrHeld says that somebody else has it, one that is
	// driver.ErrUnavailable that nothing was asked; any other leaves open whether the claim has an effect. A Hold beside such an error is what undoes it.
	// ctx bounds the claim alone.
	Take func(ctx context.Context, c Claim) (*Hold, error)
	// Close ends the client.
	Close func() error
}

// Claim is what is asked of a library.
type Claim struct {
	Name string
	TTL  time.Duration // where the library takes one for each lock
	Wait bool          // until the name is free; only where Capabilities.Wake is driver.WakeQueue
}

// Hold is what the library returns for a name.
type Hold struct {
	// Until is how long the library says that the hold is valid. Zero: it says nothing.
	Until time.Time
	// Lost is closed by the library when the lock is lost. nil: it does not tell.
	Lost <-chan struct{}
	// Renew prolongs the hold by its TTL and returns its new Until, or driver.ErrLost. nil: the library renews by itself. Needed where Until is set.
	Renew func(ctx context.Context) (time.Time, error)
	// Release gives the name up, or returns driver.ErrLost where the library says that the lock was not held.
	Release func(ctx context.Context) error
	// Abort ends what the end of the client leaves. nil: nothing.
	Abort func()
}

// Driver is a driver over a client. caps are what the library's documentation states, and zero where it states nothing.
func Driver(caps driver.Capabilities, c Client) driver.Backend {
	b := &backend{client: c, caps: caps}
	if caps.Wake == driver.WakeQueue {
		return waiter{b}
	}
	return b
}

type backend struct {
	client Client
	caps   driver.Capabilities

	held sync.Map // by owner, the *Hold
	sent sync.Map // by owner, the time.Time at which a claim with an unknown outcome ended
}

// Capabilities implements driver.Backend.
func (b *backend) Capabilities() driver.Capabilities { return b.caps }

// Close implements driver.Backend. What is held ends as if the process had died.
func (b *backend) Close() error {
	err := b.client.Close()
	for _, h := range b.held.Range {
		if abort := h.(*Hold).Abort; abort != nil {
			abort()
		}
	}
	return err
}

// TryAcquire implements driver.Backend.
func (b *backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.claim(ctx, req, false)
}

// waiter is a driver of a library that can wait.
type waiter struct{ *backend }

// Wait implements driver.Waiter.
func (w waiter) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return w.claim(ctx, req, true)
}

func (b *backend) claim(ctx context.Context, req driver.Request, wait bool) (driver.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	if req.TTL < b.caps.MinTTL {
		return nil, fmt.Errorf("%w: the TTL %v is below %v", driver.ErrRefused, req.TTL, b.caps.MinTTL)
	}
	h, err := b.client.Take(ctx, Claim{req.Name, req.TTL, wait})
	switch {
	case errors.Is(err, driver.ErrHeld):
		return nil, &driver.HeldError{Poll: pollEvery}
	case errors.Is(err, driver.ErrUnavailable):
		return nil, err
	case err != nil && h != nil:
		b.held.Store(req.Owner, h)
	case err != nil:
		b.sent.Store(req.Owner, time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnknown, err)
	}
	if h.Lost != nil {
		release, stop := h.Release, tell(h.Lost, req.Lost)
		h.Release = func(ctx context.Context) error {
			stop()
			return release(ctx)
		}
	}
	b.held.Store(req.Owner, h)
	if h.Renew != nil {
		return renewable{lease{h}}, nil
	}
	return lease{h}, nil
}

// pollEvery is how often a waiter tries again.
const pollEvery = 50 * time.Millisecond

// Abandon implements driver.Backend: it releases what the library returned for the claim. Where it returned an error there is nothing by which the claim could
// be undone, so its end is awaited.
func (b *backend) Abandon(ctx context.Context, req driver.Request) error {
	if h, found := b.held.Load(req.Owner); found {
		if err := h.(*Hold).Release(ctx); err != nil && !errors.Is(err, driver.ErrLost) {
			return err
		}
	} else if sent, found := b.sent.Load(req.Owner); found && time.Since(sent.(time.Time)) < req.TTL+req.TTL/10 {
		return fmt.Errorf("%w: the library cannot undo a claim; it ends with its TTL", driver.ErrUnknown)
	}
	b.held.Delete(req.Owner)
	b.sent.Delete(req.Owner)
	return nil
}

type lease struct{ h *Hold }

// Grant implements driver.Lease.
func (l lease) Grant() driver.Grant { return driver.Grant{Until: l.h.Until} }

// Release implements driver.Lease.
func (l lease) Release(ctx context.Context) error { return l.h.Release(ctx) }

// renewable is a lease that its user renews.
type renewable struct{ lease }

// Renew implements driver.Renewer.
func (l renewable) Renew(ctx context.Context) (time.Time, error) { return l.h.Renew(ctx) }

// LostIf is err, and matches driver.ErrLost where the library says that the lock was not held.
func LostIf(lost bool, err error) error {
	switch {
	case !lost:
		return err
	case err == nil:
		return driver.ErrLost
	}
	return fmt.Errorf("%w: %w", driver.ErrLost, err)
}

// tell passes a library's own notice on, until stop is called.
func tell(gone <-chan struct{}, lost func(error)) (stop func()) {
	over, end := context.WithCancel(context.Background())
	go func() {
		select {
		case <-gone:
			if lost != nil && over.Err() == nil {
				lost(driver.ErrLost)
			}
		case <-over.Done():
		}
	}()
	return end
}
