// Package library describes a lock library by its own calls, without retry, renewal or repair. [Driver] makes a driver of them, to
// test the library with package conformance. Use the driver for that only: if a library cannot undo a claim, the driver can only
// await its expiry.
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
	// Take claims a name once, as a user of the library does, or waits for it. driver.ErrHeld means that another holder has the
	// name, driver.ErrUnavailable that no request was sent. After any other error the outcome is unknown; a Hold returned with it
	// undoes the claim. ctx applies to the claim alone.
	Take func(ctx context.Context, c Claim) (*Hold, error)
	// Undo makes sure that a claim is not held and cannot become held, whatever its outcome. nil: the Hold is released; a claim
	// of unknown outcome without a Hold ends with its TTL.
	Undo func(ctx context.Context, c Claim) error
	// Close ends the client.
	Close func() error
}

// Claim is a request to a library.
type Claim struct {
	Name  string
	Owner string        // identifies the claim, for libraries that let their caller choose the value of a lock
	TTL   time.Duration // if the library takes one for each lock
	Wait  bool          // wait until the name is free; Driver sets it only if Capabilities.Wake is driver.WakeQueue
}

// Hold is what the library returns for a name.
type Hold struct {
	// Until is the end of the hold's validity as the library states it. Zero: it states none.
	Until time.Time
	// Lost is closed by the library when the lock is lost. nil: the library does not report losses.
	Lost <-chan struct{}
	// Renew extends the hold by its TTL and returns its new Until, or driver.ErrLost. nil: the library renews. Required if Until is set.
	Renew func(ctx context.Context) (time.Time, error)
	// Release releases the name, or returns driver.ErrLost if the library says that the lock was not held.
	Release func(ctx context.Context) error

	stop func() // stops watching Lost
}

// Driver returns a driver over a client. caps are what the library's documentation states, and zero where it states nothing.
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

	busy sync.Map // by owner, the claims whose calls have not returned
	held sync.Map // by owner, the *Hold, until it is released
	sent sync.Map // by owner, the time.Time when a claim returned an unknown outcome
}

func (b *backend) Capabilities() driver.Capabilities { return b.caps }

func (b *backend) Close() error { return b.client.Close() }

func (b *backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.claim(ctx, req, false)
}

// waiter drives a library that can wait.
type waiter struct{ *backend }

func (w waiter) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return w.claim(ctx, req, true)
}

func (b *backend) claim(ctx context.Context, req driver.Request, wait bool) (driver.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	if fixed := b.caps.FixedTTL; req.TTL < b.caps.MinTTL || fixed > 0 && req.TTL != fixed {
		return nil, fmt.Errorf("%w: the TTL %v is below %v, or not the only one, %v", driver.ErrRefused, req.TTL, b.caps.MinTTL, fixed)
	}
	b.busy.Store(req.Owner, true)
	defer b.busy.Delete(req.Owner)
	h, err := b.client.Take(ctx, Claim{req.Name, req.Owner, req.TTL, wait})
	switch {
	case err == nil && h == nil, h != nil && h.Release == nil:
		return nil, errors.Join(fmt.Errorf("%w: Client.Take returned no Hold, or one without Release", driver.ErrUnknown), err)
	case errors.Is(err, driver.ErrHeld):
		return nil, &driver.HeldError{Poll: pollEvery}
	case errors.Is(err, driver.ErrUnavailable):
		return nil, err
	case err != nil && h != nil:
		h.stop = func() {}
		b.held.Store(req.Owner, h)
	case err != nil:
		b.sent.Store(req.Owner, time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnknown, err)
	}
	release := h.Release
	if h.stop = func() {}; h.Lost != nil {
		h.stop = tell(h.Lost, req.Lost)
	}
	h.Release = func(ctx context.Context) error {
		h.stop()
		err := release(ctx)
		if err == nil {
			b.held.Delete(req.Owner)
		}
		return err
	}
	b.held.Store(req.Owner, h)
	if h.Renew != nil {
		return renewable{lease{h}}, nil
	}
	return lease{h}, nil
}

// pollEvery is how often a waiter polls.
const pollEvery = 50 * time.Millisecond

// Abandon without Undo releases the Hold of the claim, or awaits the claim's expiry.
func (b *backend) Abandon(ctx context.Context, req driver.Request) error {
	_, busy := b.busy.Load(req.Owner) // first: a call that has returned has left its outcome
	h, held := b.held.Load(req.Owner)
	sent, unknown := b.sent.Load(req.Owner)
	switch {
	case b.client.Undo != nil:
		if err := b.client.Undo(ctx, Claim{Name: req.Name, Owner: req.Owner, TTL: req.TTL}); err != nil {
			return err
		}
	case busy: // it has no outcome yet
	case held:
		if err := h.(*Hold).Release(ctx); err != nil && !errors.Is(err, driver.ErrLost) {
			return err
		}
	case unknown && time.Since(sent.(time.Time)) < req.TTL+req.TTL/10:
		return fmt.Errorf("%w: the library cannot undo a claim; it ends with its TTL", driver.ErrUnknown)
	}
	if busy {
		return fmt.Errorf("%w: the call of the library has not returned", driver.ErrUnknown)
	}
	if held {
		h.(*Hold).stop()
	}
	b.held.Delete(req.Owner)
	b.sent.Delete(req.Owner)
	return nil
}

type lease struct{ h *Hold }

func (l lease) Grant() driver.Grant { return driver.Grant{Until: l.h.Until} }

func (l lease) Release(ctx context.Context) error { return l.h.Release(ctx) }

// renewable is a lease with Renew.
type renewable struct{ lease }

func (l renewable) Renew(ctx context.Context) (time.Time, error) { return l.h.Renew(ctx) }

// LostIf returns err, and makes it match driver.ErrLost if lost, when the library says that the lock was not held.
func LostIf(lost bool, err error) error {
	switch {
	case !lost:
		return err
	case err == nil:
		return driver.ErrLost
	}
	return fmt.Errorf("%w: %w", driver.ErrLost, err)
}

// tell calls lost when the library closes gone, until stop is called.
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
