package exhibits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// heldByAnother is why a name is not free although its claim was abandoned.
const heldByAnother = "lock is held"

// outcomes are locks that report a wrong outcome.
var outcomes = []Exhibit{
	{"never-abandons", "Abandon returns nil and does nothing: a claim whose reply was lost stays",
		caught{"unknown/acquire-reply-lost": heldByAnother, "cancellation/queued": heldByAnother, "ownership/abandon-twice": heldByAnother,
			"fencing/holders": heldByAnother, "giving-up/many-cut-off": heldByAnother, "giving-up/many-reply-lost": heldByAnother,
			"giving-up/at-the-hand-off": "released", "shared/acquire-reply-lost": heldByAnother, "permits/acquire-reply-lost": heldByAnother,
			"shared/abandoned": "a claim was not granted", "permits/abandoned": "a claim was not granted"}, func(l *lock) {
			l.abandon = func(context.Context, driver.Request) error { return nil }
		}},
	{"grants-what-was-abandoned", "a claim that arrives after it was abandoned is granted",
		caught{"cancellation/claim-under-way": heldByAnother}, claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			granted, err := l.sound.TryAcquire(ctx, req)
			if errors.Is(err, driver.ErrUnknown) {
				time.AfterFunc(500*time.Millisecond, func() { _, _ = l.sound.TryAcquire(context.WithoutCancel(ctx), req) })
			}
			return granted, err
		})},
	{"believes-what-will-pass",
		"a claim repeated after a lost reply is granted but not renewed: it belongs to the earlier session",
		caught{"unknown/acquire-reply-lost-kept": "yet another claim was granted"}, func(l *lock) {
			l.renew = func(ctx context.Context, l *lease) (time.Time, error) {
				if _, found := l.lock.shared.Load(l.req.Owner); found {
					return time.Now().Add(l.req.TTL), nil
				}
				return l.soundly(ctx)
			}
			claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
				granted, err := l.sound.TryAcquire(ctx, req)
				if errors.Is(err, driver.ErrUnknown) {
					l.shared.Store(req.Owner, true)
					return l.sound.TryAcquire(ctx, req)
				}
				return granted, err
			})(l)
		}},
	{"guesses-that-nothing-happened", "a claim whose reply was lost is reported to have had no effect",
		caught{"unknown/acquire-reply-lost": "is unavailable: outcome unknown", "unknown/cut-after-each-request": "is unavailable: outcome unknown",
			"unknown/many-cut-off": "is unavailable: outcome unknown", "shared/cut-after-each-request": "is unavailable: outcome unknown",
			"permits/cut-after-each-request": "is unavailable: outcome unknown"}, failing(func(err error) error {
			if errors.Is(err, driver.ErrUnknown) {
				return fmt.Errorf("%w: %v", driver.ErrUnavailable, err)
			}
			return err
		})},
	{"grants-without-a-server", "if the server is unreachable, the claim is granted anyway",
		caught{"unknown/server-gone": "lease: true"}, claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			granted, err := l.sound.TryAcquire(ctx, req)
			if errors.Is(err, driver.ErrUnavailable) {
				return new(lease), nil
			}
			return granted, err
		})},
	{"two-classes", "an error matches two classes",
		caught{"contract/held": "exactly one class"}, failing(func(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) })},
	{"shows-the-password", "an error shows the URL with its password",
		caught{"unknown/server-gone": "shows the password"}, failing(func(err error) error { return fmt.Errorf("wire://user:hunter2@localhost: %w", err) })},
}

// failing changes the errors of claims.
func failing(change func(error) error) func(*lock) {
	return claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
		granted, err := l.sound.TryAcquire(ctx, req)
		if err != nil {
			err = change(err)
		}
		return granted, err
	})
}
