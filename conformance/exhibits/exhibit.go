package exhibits

import (
	"context"
	"slices"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// Exhibit is a lock that is broken in one way.
type Exhibit struct {
	// Name is what the fault is called.
	Name string
	// Is says in a sentence what is broken.
	Is string
	// CaughtBy are the cases that must fail, by their IDs. Others may fail too.
	CaughtBy []string
	// Sees is what the reason of the failure must contain.
	Sees string

	// broken makes a broken backend of a sound one.
	broken func(*Backend) driver.Backend
}

// caught are the IDs of the cases that must fail.
type caught []string

func newExhibit(name, is, sees string, by caught, broken func(*Backend) driver.Backend) Exhibit {
	return Exhibit{Name: name, Is: is, Sees: sees, CaughtBy: by, broken: broken}
}

// Config is the suite's, with x as the backend under test on a wire of its own.
func (x Exhibit) Config() conformance.Config {
	w := NewWire()
	return w.Config(func(ctx context.Context, target string) (driver.Backend, error) {
		b, err := w.Open(ctx, target)
		if err != nil || target == Direct {
			return b, err
		}
		return x.broken(b.(*Backend)), nil
	})
}

// All are all exhibits.
func All() []Exhibit {
	return slices.Concat(claims, releases, renewals, outcomes, waits, statements, leaks)
}

// claimed is a backend whose claims go another way.
type claimed struct {
	*Backend
	try func(context.Context, driver.Request) (driver.Lease, error)
}

// TryAcquire implements driver.Backend.
func (b claimed) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.try(ctx, req)
}

// Wait implements driver.Waiter.
func (b claimed) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	if l, err := b.try(ctx, req); !isHeld(err) {
		return l, err
	}
	return b.Backend.Wait(ctx, req)
}

// claiming makes backends whose claims go by try.
func claiming(try func(*Backend, context.Context, driver.Request) (driver.Lease, error)) func(*Backend) driver.Backend {
	return func(b *Backend) driver.Backend {
		return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) { return try(b, ctx, req) }}
	}
}

// leased is a backend whose leases are changed.
func leased(b *Backend, change func(*lease) driver.Lease) driver.Backend {
	return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
		l, err := b.TryAcquire(ctx, req)
		if err != nil {
			return nil, err
		}
		return change(l.(*lease)), nil
	}}
}

// leasing makes backends whose leases are changed.
func leasing(change func(*lease) driver.Lease) func(*Backend) driver.Backend {
	return func(b *Backend) driver.Backend { return leased(b, change) }
}

// renamed is a backend that changes what it is asked for.
func renamed(b *Backend, change func(*driver.Request)) driver.Backend { return changed{b, change} }

// asking makes backends that change what they are asked for.
func asking(change func(*driver.Request)) func(*Backend) driver.Backend {
	return func(b *Backend) driver.Backend { return renamed(b, change) }
}

// changed changes each request.
type changed struct {
	*Backend
	change func(*driver.Request)
}

// TryAcquire implements driver.Backend.
func (b changed) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	b.change(&req)
	return b.Backend.TryAcquire(ctx, req)
}

// Wait implements driver.Waiter.
func (b changed) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	b.change(&req)
	return b.Backend.Wait(ctx, req)
}

// Abandon implements driver.Backend.
func (b changed) Abandon(ctx context.Context, req driver.Request) error {
	b.change(&req)
	return b.Backend.Abandon(ctx, req)
}

// stated is a backend that states something else.
type stated struct {
	driver.Backend
	caps driver.Capabilities
}

// Capabilities implements driver.Backend.
func (b stated) Capabilities() driver.Capabilities { return b.caps }

// Unwrap implements driver.Unwrapper.
func (b stated) Unwrap() driver.Backend { return b.Backend }

// stating makes backends that state something else.
func stating(change func(*driver.Capabilities)) func(*Backend) driver.Backend {
	return func(b *Backend) driver.Backend { return states(b, change) }
}

// states changes what b states.
func states(b driver.Backend, change func(*driver.Capabilities)) driver.Backend {
	caps := b.Capabilities()
	change(&caps)
	return stated{b, caps}
}
