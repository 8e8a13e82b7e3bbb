package exhibits

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// waits are locks with faults in waiting.
var waits = []Exhibit{
	{"never-wakes", "a waiter is neither told that the name is free nor asked to poll",
		caught{"waiting/notified": "no hint came", "liveness/hand-offs": "Acquire was not granted within"},
		notifying(time.Hour, func(context.Context, *lock, driver.Request, func()) {})},
	{"hears-nothing", "a waiter is told when its driver begins to listen, and never again; it polls",
		caught{"waiting/notified": "no hint came"},
		notifying(200*time.Millisecond, func(_ context.Context, _ *lock, _ driver.Request, wake func()) { wake() })},
	{"wakes-who-asked-in-time-only", "a release between the claim and the call to Notify wakes nobody",
		caught{"waiting/notified": "before the call", "cost/waiters": "one waiter cost"},
		notifying(time.Hour, func(ctx context.Context, l *lock, req driver.Request, wake func()) {
			req.Owner = "probe:" + req.Owner
			for seen := false; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
				_, err := l.TryAcquire(ctx, req)
				_ = l.Abandon(ctx, req)
				if isHeld(err) {
					seen = true
				} else if seen {
					wake()
				}
			}
		})},
	{"waits-for-ever", "Wait is not granted a name that was released",
		caught{"waiting/wait": "was not granted within", "waiting/long-wait": "was not granted within"}, waiting(func(_ *lock, ctx context.Context, _ driver.Request) (driver.Lease, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		})},
	{"wait-ignores-cancellation", "Wait waits even if its context ends",
		caught{"cancellation/waiting": "Wait has not returned"}, waiting(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			long, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			return l.sound.Wait(long, req)
		})},
	{"wait-counts-from-its-beginning", "the validity after a wait is too long",
		caught{"waiting/long-wait": "longer than the TTL"}, waiting(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			granted, err := l.sound.Wait(ctx, req)
			if err != nil {
				return nil, err
			}
			late := &lease{Lease: granted, lock: l, req: req, grant: granted.Grant()}
			late.grant.Until = late.grant.Until.Add(req.TTL / 2)
			return late, nil
		})},
	{"queues-for-the-first-names-only", "the server's queue is stated, but a client polls if it waits for more than four names",
		caught{"liveness/many-names": "later than"}, func(l *lock) {
			var waits atomic.Int64
			l.request = unqueued // a place in the queue could be granted and expire between two polls
			l.wait = func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				defer waits.Add(-1)
				if waits.Add(1) > 4 {
					return nil, &driver.HeldError{Poll: time.Second}
				}
				return l.sound.Wait(ctx, req)
			}
		}},
	{"overtakes", "a queue is stated, but a newcomer at the right moment gets the name",
		caught{"waiting/order": "before waiter"}, asking(unqueued)},
	{"never-says-contended", "Contended is stated, but holders are not told that others wait",
		caught{"waiting/contended": "was not told", "shared/contended": "was not told"}, asking(func(req *driver.Request) { req.Contended = nil })},
}

// waiting replaces how a claim waits.
func waiting(wait func(*lock, context.Context, driver.Request) (driver.Lease, error)) func(*lock) {
	return func(l *lock) {
		l.wait = func(ctx context.Context, req driver.Request) (driver.Lease, error) { return wait(l, ctx, req) }
	}
}

// unqueued makes a claim take no place in the queue, unless it waits.
func unqueued(req *driver.Request) { req.Queue = false }

// plain hides the optional interfaces of a lock.
type plain struct{ driver.Backend }

// notifying makes a lock whose waiters are notified, and poll as a safety net.
func notifying(poll time.Duration, notify func(ctx context.Context, l *lock, req driver.Request, wake func())) func(*lock) {
	return func(l *lock) {
		l.state = func(c *driver.Capabilities) {
			c.Wake, c.Fair, c.Queue = driver.WakeNotify, driver.FairNone, false
		}
		l.claim = func(ctx context.Context, req driver.Request) (driver.Lease, error) {
			granted, err := l.sound.TryAcquire(ctx, req)
			if isHeld(err) {
				err = &driver.HeldError{Poll: poll}
			}
			return granted, err
		}
		l.as = notifier{plain{l}, func(ctx context.Context, req driver.Request, wake func()) { notify(ctx, l, req, wake) }}
	}
}

// notifier is a driver.Notifier.
type notifier struct {
	plain
	notify func(ctx context.Context, req driver.Request, wake func())
}

func (n notifier) Notify(req driver.Request, wake func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		n.notify(ctx, req, wake)
	}()
	return func() { cancel(); <-over }
}
