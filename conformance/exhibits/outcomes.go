package exhibits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// heldByAnother is why a name is not free although its claim was abandoned.
const heldByAnother = "is held by another client"

// outcomes are locks that report a wrong outcome.
var outcomes = []Exhibit{
	{"never-abandons", "Abandon returns nil and does nothing: a claim whose reply was lost stays",
		sees{heldByAnother, heldByAnother, heldByAnother, heldByAnother, heldByAnother, heldByAnother, "released", heldByAnother, heldByAnother},
		caught{"unknown/acquire-reply-lost", "cancellation/queued", "ownership/abandon-twice", "fencing/abandoned", "giving-up/many-cut-off", "giving-up/many-reply-lost",
			"giving-up/among-many", "shared/acquire-reply-lost", "permits/acquire-reply-lost"}, func(l *lock) {
			l.abandon = func(context.Context, driver.Request) error { return nil }
		}},
	{"believes-what-will-pass",
		"a claim repeated after a lost reply is granted but not renewed: it belongs to the earlier session", sees{"yet another claim was granted"},
		caught{"unknown/acquire-reply-lost-kept"}, func(l *lock) {
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
	{"guesses-that-nothing-happened", "a claim whose reply was lost is reported to have had no effect", sees{"is unavailable: outcome unknown"},
		caught{"unknown/acquire-reply-lost", "unknown/cut-after-each-request", "unknown/many-cut-off", "shared/cut-after-each-request",
			"permits/cut-after-each-request"}, failing(func(err error) error {
			if errors.Is(err, driver.ErrUnknown) {
				return fmt.Errorf("%w: %v", driver.ErrUnavailable, err)
			}
			return err
		})},
	{"grants-without-a-server", "if the server is unreachable, the claim is granted anyway", sees{"lease: true"},
		caught{"unknown/server-gone"}, claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			granted, err := l.sound.TryAcquire(ctx, req)
			if errors.Is(err, driver.ErrUnavailable) {
				return new(lease), nil
			}
			return granted, err
		})},
	{"two-classes", "an error matches two classes", sees{"exactly one class"},
		caught{"contract/held"}, failing(func(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) })},
	{"shows-the-password", "an error shows the URL with its password", sees{"shows the password"},
		caught{"unknown/server-gone"}, failing(func(err error) error { return fmt.Errorf("wire://user:hunter2@localhost: %w", err) })},
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
