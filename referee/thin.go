package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// thin is a driver.Backend over a library's own calls. It adds nothing to them: no retry, no renewal, no repair.
type thin struct {
	caps driver.Capabilities
	// take claims a name once, as a user of the library would, or waits for it. driver.ErrHeld: somebody else has it.
	take func(ctx context.Context, req driver.Request, wait bool) (*hold, error)
	end  func() error // ends the client

	held sync.Map // by owner, the *hold
	sent sync.Map // by owner, the time.Time at which a claim with an unknown outcome ended
}

// hold is what the library returns for a name.
type hold struct {
	until   time.Time                                    // as the library states it; zero: it states none
	renew   func(ctx context.Context) (time.Time, error) // nil: the library renews by itself, or has nothing to renew
	release func(ctx context.Context) error
	abort   func() // ends what the end of the client leaves; nil: nothing
}

// Capabilities implements driver.Backend.
func (t *thin) Capabilities() driver.Capabilities { return t.caps }

// Close implements driver.Backend. What is held ends as if the process had died.
func (t *thin) Close() error {
	err := t.end()
	for _, h := range t.held.Range {
		if abort := h.(*hold).abort; abort != nil {
			abort()
		}
	}
	return err
}

// TryAcquire implements driver.Backend.
func (t *thin) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return t.claim(ctx, req, false)
}

// waiter is a thin driver of a library that can wait.
type waiter struct{ *thin }

// Wait implements driver.Waiter.
func (w waiter) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return w.claim(ctx, req, true)
}

func (t *thin) claim(ctx context.Context, req driver.Request, wait bool) (driver.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	h, err := t.take(ctx, req, wait)
	if errors.Is(err, driver.ErrHeld) {
		return nil, &driver.HeldError{Poll: pollEvery}
	}
	if err != nil {
		t.sent.Store(req.Owner, time.Now())
		return nil, fmt.Errorf("%w: %w", driver.ErrUnknown, err)
	}
	t.held.Store(req.Owner, h)
	if h.renew != nil {
		return renewable{lease{h}}, nil
	}
	return lease{h}, nil
}

// pollEvery is how often a waiter tries again: none of the libraries lets a caller of another client know.
const pollEvery = 50 * time.Millisecond

// Abandon implements driver.Backend: it releases what the library returned for the claim. Where it returned an error there is nothing by which the claim could
// be undone, so its end is awaited.
func (t *thin) Abandon(ctx context.Context, req driver.Request) error {
	if h, found := t.held.Load(req.Owner); found {
		if err := h.(*hold).release(ctx); err != nil && !errors.Is(err, driver.ErrLost) {
			return err
		}
	} else if sent, found := t.sent.Load(req.Owner); found && time.Since(sent.(time.Time)) < req.TTL+req.TTL/10 {
		return fmt.Errorf("%w: the library cannot undo a claim; it ends with its TTL", driver.ErrUnknown)
	}
	t.held.Delete(req.Owner)
	t.sent.Delete(req.Owner)
	return nil
}

type lease struct{ *hold }

// Grant implements driver.Lease.
func (l lease) Grant() driver.Grant { return driver.Grant{Until: l.until} }

// Release implements driver.Lease.
func (l lease) Release(ctx context.Context) error { return l.release(ctx) }

// renewable is a lease that its user renews.
type renewable struct{ lease }

// Renew implements driver.Renewer.
func (l renewable) Renew(ctx context.Context) (time.Time, error) { return l.renew(ctx) }

// lostIf is ErrLost if the library says that the lock was not held, and err otherwise.
func lostIf(lost bool, err error) error {
	if lost {
		return fmt.Errorf("%w: %w", driver.ErrLost, err)
	}
	return err
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

// hosts are the servers that a URL names.
func hosts(rawURL string) ([]string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	return strings.Split(u.Host, ","), nil
}
