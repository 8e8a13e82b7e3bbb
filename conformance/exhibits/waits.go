package exhibits

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// waits are locks that let others wait wrongly.
var waits = []Exhibit{
	{
		Name: "never-wakes", Is: "who waits is never told that the name is free, and is not asked to look again either",
		CaughtBy: []string{"waiting/notified", "liveness/hand-offs"},
		broken: func(b *Backend) driver.Backend {
			return silent{plain{states(b, func(c *driver.Capabilities) {
				c.Wake, c.Fair, c.Queue, c.Poll = driver.WakeNotify, driver.FairNone, false, time.Hour
			})}}
		},
	},
	{
		Name: "wakes-who-asked-in-time-only", Is: "a release between the claim and the request to be notified is not told",
		CaughtBy: []string{"waiting/notified"}, Sees: "before it asked",
		broken: func(b *Backend) driver.Backend {
			return forgetful{silent{plain{states(b, func(c *driver.Capabilities) {
				c.Wake, c.Fair, c.Queue = driver.WakeNotify, driver.FairNone, false
			})}}}
		},
	},
	{
		Name: "waits-for-ever", Is: "Wait is not granted a name that was released",
		CaughtBy: []string{"waiting/wait", "waiting/long-wait"}, Sees: "was not granted it within",
		broken: func(b *Backend) driver.Backend {
			return waiters{b, func(ctx context.Context, _ driver.Request) (driver.Lease, error) {
				<-ctx.Done()
				return nil, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
			}}
		},
	},
	{
		Name: "wait-ignores-cancellation", Is: "Wait waits for its grant whatever becomes of its context",
		CaughtBy: []string{"cancellation/waiting"}, Sees: "Wait has not returned",
		broken: func(b *Backend) driver.Backend {
			return waiters{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				long, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
				defer cancel()
				return b.Wait(long, req)
			}}
		},
	},
	{
		Name: "wait-counts-from-its-beginning", Is: "the claim that was won by waiting is believed to be as fresh as when it is told",
		CaughtBy: []string{"waiting/long-wait"},
		broken: func(b *Backend) driver.Backend {
			return waiters{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				l, err := b.Wait(ctx, req)
				if err != nil {
					return nil, err
				}
				late := l.(*lease)
				late.grant.Until = late.grant.Until.Add(late.ttl / 2)
				return late, nil
			}}
		},
	},
	{
		Name: "spins", Is: "who waits asks the server every five milliseconds",
		CaughtBy: []string{"cost/waiters"}, Sees: "one waiter cost",
		broken: func(b *Backend) driver.Backend {
			return waiters{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
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
			}}
		},
	},
	{
		Name: "overtakes", Is: "a queue is stated, and whoever comes at the right moment gets the name",
		CaughtBy: []string{"waiting/order"}, Sees: "before client",
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				req.Queue = false
				return b.TryAcquire(ctx, req)
			}}
		},
	},
	{
		Name: "never-says-contended", Is: "Contended is stated, and holders are not told that others wait",
		CaughtBy: []string{"waiting/contended"}, Sees: "was not told",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.Contended = nil })
		},
	},
}

// waiters is a backend with another Wait.
type waiters struct {
	*Backend
	wait func(context.Context, driver.Request) (driver.Lease, error)
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
