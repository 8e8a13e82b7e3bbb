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
	{
		Name: "ignores-cancellation", Is: "a claim waits for its reply whatever becomes of its context",
		CaughtBy: []string{"cancellation/silent-server"}, Sees: "has not returned",
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				l, err := b.TryAcquire(context.WithoutCancel(ctx), req)
				if err == nil && ctx.Err() != nil {
					return nil, fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
				}
				return l, err
			}}
		},
	},
	{
		Name: "never-abandons", Is: "Abandon says that it is done, and does nothing: what was granted without a reply stays",
		CaughtBy: []string{"unknown/acquire-reply-lost", "cancellation/queued", "ownership/abandon-twice", "fencing/abandoned",
			"giving-up/many-cut-off", "giving-up/many-reply-lost", "giving-up/among-many"},
		broken: func(b *Backend) driver.Backend {
			return abandons{b, func(context.Context, driver.Request) error { return nil }}
		},
	},
	{
		Name: "believes-what-will-pass", Is: "a claim whose reply was lost is found when it is asked for again, and is not renewed: it belongs to the session before",
		CaughtBy: []string{"unknown/acquire-reply-lost-kept"}, Sees: "yet another claim was granted",
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				l, err := b.TryAcquire(ctx, req)
				if !errors.Is(err, driver.ErrUnknown) {
					return l, err
				}
				if l, err = b.TryAcquire(ctx, req); err != nil {
					return nil, err
				}
				return renewed{l.(*lease), func(context.Context, driver.Lease) (time.Time, error) { return time.Now().Add(req.TTL), nil }}, nil
			}}
		},
	},
	{
		Name: "guesses-that-nothing-happened", Is: "a claim whose reply was lost is said to have had no effect",
		CaughtBy: []string{"unknown/acquire-reply-lost", "unknown/cut-after-each-request", "unknown/many-cut-off"},
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				l, err := b.TryAcquire(ctx, req)
				if errors.Is(err, driver.ErrUnknown) {
					return nil, fmt.Errorf("%w: %v", driver.ErrUnavailable, err)
				}
				return l, err
			}}
		},
	},
	{
		Name: "grants-without-a-server", Is: "when the server is not there the claim is granted all the same",
		CaughtBy: []string{"unknown/server-gone"}, Sees: "lease: true",
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				l, err := b.TryAcquire(ctx, req)
				if errors.Is(err, driver.ErrUnavailable) {
					return new(lease), nil
				}
				return l, err
			}}
		},
	},
	{
		Name: "two-classes", Is: "an error is of two classes at once",
		CaughtBy: []string{"contract/held"}, Sees: "exactly one class",
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				l, err := b.TryAcquire(ctx, req)
				if err != nil {
					err = fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
				}
				return l, err
			}}
		},
	},
	{
		Name: "shows-the-password", Is: "an error shows the URL with its password",
		CaughtBy: []string{"unknown/server-gone"}, Sees: "shows the password",
		target: "wire://user:hunter2@localhost",
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				l, err := b.TryAcquire(ctx, req)
				if err != nil {
					err = fmt.Errorf("wire://user:hunter2@localhost: %w", err)
				}
				return l, err
			}}
		},
	},
}
