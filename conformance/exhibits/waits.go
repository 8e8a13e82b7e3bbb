package exhibits

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// waits are locks that let others wait wrongly.
var waits = []Exhibit{
	newExhibit("never-wakes", "who waits is never told that the name is free, and is not asked to look again either", "",
		caught{"waiting/notified", "liveness/hand-offs"}, func(b *Backend) driver.Backend {
			return silent{plain{states(b, func(c *driver.Capabilities) {
				c.Wake, c.Fair, c.Queue, c.Poll = driver.WakeNotify, driver.FairNone, false, time.Hour
			})}}
		}),
	newExhibit("wakes-who-asked-in-time-only", "a release between the claim and the request to be notified is not told", "before it asked",
		caught{"waiting/notified"}, func(b *Backend) driver.Backend {
			return forgetful{silent{plain{states(b, func(c *driver.Capabilities) {
				c.Wake, c.Fair, c.Queue = driver.WakeNotify, driver.FairNone, false
			})}}}
		}),
	newExhibit("waits-for-ever", "Wait is not granted a name that was released", "was not granted it within",
		caught{"waiting/wait", "waiting/long-wait"}, waiting(func(b *Backend, ctx context.Context, _ driver.Request) (driver.Lease, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		})),
	newExhibit("wait-ignores-cancellation", "Wait waits for its grant whatever becomes of its context", "Wait has not returned",
		caught{"cancellation/waiting"}, waiting(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			long, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			return b.Wait(long, req)
		})),
	newExhibit("wait-counts-from-its-beginning", "the claim that was won by waiting is believed to be as fresh as when it is told", "",
		caught{"waiting/long-wait"}, waiting(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			l, err := b.Wait(ctx, req)
			if err != nil {
				return nil, err
			}
			late := l.(*lease)
			late.grant.Until = late.grant.Until.Add(late.ttl / 2)
			return late, nil
		})),
	newExhibit("spins", "who waits asks the server every five milliseconds", "one waiter cost",
		caught{"cost/waiters"}, waiting(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			for {
				if l, err := b.TryAcquire(ctx, req); !isHeld(err) {
					return l, err
				}
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
					return nil, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
				}
			}
		})),
	newExhibit("overtakes", "a queue is stated, and whoever comes at the right moment gets the name", "before client",
		caught{"waiting/order"}, claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			req.Queue = false
			return b.TryAcquire(ctx, req)
		})),
	newExhibit("never-says-contended", "Contended is stated, and holders are not told that others wait", "was not told",
		caught{"waiting/contended"}, asking(func(req *driver.Request) { req.Contended = nil })),
}

// waiters is a backend with another Wait.
type waiters struct {
	*Backend
	wait func(context.Context, driver.Request) (driver.Lease, error)
}

// waiting makes backends with another Wait.
func waiting(wait func(*Backend, context.Context, driver.Request) (driver.Lease, error)) func(*Backend) driver.Backend {
	return func(b *Backend) driver.Backend {
		return waiters{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) { return wait(b, ctx, req) }}
	}
}

// Wait implements driver.Waiter.
func (b waiters) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.wait(ctx, req)
}

// plain hides what a backend is beside a driver.Backend.
type plain struct{ driver.Backend }

// silent is a driver.Notifier that never wakes anybody.
type silent struct{ plain }

// TryAcquire implements driver.Backend.
func (b silent) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	l, err := b.plain.TryAcquire(ctx, req)
	if isHeld(err) {
		return nil, &driver.HeldError{Poll: time.Hour}
	}
	return l, err
}

// Notify implements driver.Notifier.
func (b silent) Notify(driver.Request, func()) (stop func()) { return func() {} }

// forgetful is a driver.Notifier that polls, but only for a name that it found held.
type forgetful struct{ silent }

// Notify implements driver.Notifier.
func (b forgetful) Notify(req driver.Request, wake func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		seen := false
		for ctx.Err() == nil {
			probe := req
			probe.Owner = "probe:" + req.Owner
			_, err := b.plain.TryAcquire(ctx, probe)
			_ = b.Abandon(ctx, probe)
			if isHeld(err) {
				seen = true
			} else if seen {
				wake()
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-over }
}
