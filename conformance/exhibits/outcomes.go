package exhibits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// outcomes are locks that say something else than what happened.
var outcomes = []Exhibit{
	newExhibit("ignores-cancellation", "a claim waits for its reply whatever becomes of its context", "has not returned",
		caught{"cancellation/silent-server"}, claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			l, err := b.TryAcquire(context.WithoutCancel(ctx), req)
			if err == nil && ctx.Err() != nil {
				return nil, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
			}
			return l, err
		})),
	newExhibit("never-abandons", "Abandon says that it is done, and does nothing: what was granted without a reply stays", "",
		caught{"unknown/acquire-reply-lost", "cancellation/queued", "ownership/abandon-twice", "fencing/abandoned", "giving-up/many-cut-off", "giving-up/many-reply-lost",
			"giving-up/among-many"}, func(b *Backend) driver.Backend {
			return abandons{b, func(context.Context, driver.Request) error { return nil }}
		}),
	newExhibit("believes-what-will-pass",
		"a claim whose reply was lost is found when it is asked for again, and is not renewed: it belongs to the session before", "yet another claim was granted",
		caught{"unknown/acquire-reply-lost-kept"}, claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			l, err := b.TryAcquire(ctx, req)
			if !errors.Is(err, driver.ErrUnknown) {
				return l, err
			}
			if l, err = b.TryAcquire(ctx, req); err != nil {
				return nil, err
			}
			return renewed{l.(*lease), func(context.Context) (time.Time, error) { return time.Now().Add(req.TTL), nil }}, nil
		})),
	newExhibit("guesses-that-nothing-happened", "a claim whose reply was lost is said to have had no effect", "",
		caught{"unknown/acquire-reply-lost", "unknown/cut-after-each-request", "unknown/many-cut-off"},
		claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			l, err := b.TryAcquire(ctx, req)
			if errors.Is(err, driver.ErrUnknown) {
				return nil, fmt.Errorf("%w: %v", driver.ErrUnavailable, err)
			}
			return l, err
		})),
	newExhibit("grants-without-a-server", "when the server is not there the claim is granted all the same", "lease: true",
		caught{"unknown/server-gone"}, claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			l, err := b.TryAcquire(ctx, req)
			if errors.Is(err, driver.ErrUnavailable) {
				return new(lease), nil
			}
			return l, err
		})),
	newExhibit("two-classes", "an error is of two classes at once", "exactly one class",
		caught{"contract/held"}, claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			l, err := b.TryAcquire(ctx, req)
			if err != nil {
				err = fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
			}
			return l, err
		})),
	newExhibit("shows-the-password", "an error shows the URL with its password", "shows the password",
		caught{"unknown/server-gone"}, claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			l, err := b.TryAcquire(ctx, req)
			if err != nil {
				err = fmt.Errorf("wire://user:hunter2@localhost: %w", err)
			}
			return l, err
		})),
}
