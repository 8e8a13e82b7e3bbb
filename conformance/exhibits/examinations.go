package exhibits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// examinations are locks whose Examine does more than to look, or waits too long.
var examinations = []Exhibit{
	{
		Name: "examining-releases", Is: "Examine releases what was claimed last",
		CaughtBy: []string{"optional/examine"}, Sees: "another claim was granted",
		broken: func(b *Backend) driver.Backend {
			var last driver.Request
			return examining{renamed(b, func(req *driver.Request) { last = *req }), func(ctx context.Context, ttl time.Duration) (driver.Examination, error) {
				_ = b.Abandon(ctx, last)
				return b.Examine(ctx, ttl)
			}}
		},
	},
	{
		Name: "examining-is-silent", Is: "a notice of Examine does not say what to do",
		CaughtBy: []string{"optional/examine"}, Sees: "lacks its ID, text or remedy",
		broken: func(b *Backend) driver.Backend {
			return examining{b, func(ctx context.Context, ttl time.Duration) (driver.Examination, error) {
				found, err := b.Examine(ctx, ttl)
				found.Notices = append(found.Notices, driver.Notice{ID: "trouble", Text: "Something is wrong."})
				return found, err
			}}
		},
	},
	{
		Name: "examining-outstays", Is: "Examine waits for the server, whatever its context says",
		CaughtBy: []string{"optional/examine-silent-server"}, Sees: "after its context's end",
		broken: func(b *Backend) driver.Backend {
			return examining{b, func(ctx context.Context, ttl time.Duration) (driver.Examination, error) {
				patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
				defer cancel()
				return b.Examine(patient, ttl)
			}}
		},
	},
}

// examining is a backend with another Examine.
type examining struct {
	driver.Backend
	examine func(context.Context, time.Duration) (driver.Examination, error)
}

// Examine implements driver.Examiner.
func (b examining) Examine(ctx context.Context, ttl time.Duration) (driver.Examination, error) {
	return b.examine(ctx, ttl)
}

// Examine implements driver.Examiner.
func (b *Backend) Examine(ctx context.Context, ttl time.Duration) (driver.Examination, error) {
	found, err := over(ctx, b, func() (driver.Examination, error) { return b.inner.Examine(ctx, ttl) })
	if errors.Is(err, driver.ErrUnknown) { // it would have changed nothing
		err = fmt.Errorf("%w: no answer", driver.ErrUnavailable)
	}
	return found, err
}
