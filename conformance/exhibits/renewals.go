package exhibits

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

// renewals are locks that renew wrongly.
var renewals = []Exhibit{
	newExhibit("pretends-to-renew", "a renewal says that it succeeded, and did nothing", "",
		caught{"ownership/renewed-claim-stays", "ownership/late-renewal", "silence/renewal", "optional/batch-keeps"},
		renewing(func(_ *Backend, _ context.Context, l *lease) (time.Time, error) {
			return time.Now().Add(l.ttl), nil
		})),
	newExhibit("renews-what-is-gone", "a renewal of a claim that is gone says that it succeeded", "",
		caught{"ownership/late-renewal", "removal/forgotten", "optional/batch"}, renewing(func(_ *Backend, ctx context.Context, l *lease) (time.Time, error) {
			if until, err := l.Renew(ctx); err == nil {
				return until, nil
			}
			return time.Now().Add(l.ttl), nil
		})),
	newExhibit("counts-the-renewal-from-its-reply", "the validity of a renewal counts from when its reply came", "late",
		caught{"contract/renewal-counts-from-sending"}, renewing(func(_ *Backend, ctx context.Context, l *lease) (time.Time, error) {
			_, err := l.Renew(ctx)
			return time.Now().Add(l.ttl), err
		})),
	newExhibit("believes-a-renewal-without-a-reply", "a renewal counts although its reply did not come", "the holder said Valid",
		caught{"silence/frozen", "silence/gone"}, renewing(func(_ *Backend, ctx context.Context, l *lease) (time.Time, error) {
			_, _ = l.Renew(ctx)
			return time.Now().Add(l.ttl), nil
		})),
	newExhibit("says-lost-of-a-failed-renewal", "a renewal whose reply did not come says that the claim is gone", "",
		caught{"unknown/renewal-reply-lost", "silence/renewal-reply-lost"}, renewing(func(_ *Backend, ctx context.Context, l *lease) (time.Time, error) {
			until, err := l.Renew(ctx)
			if err != nil {
				err = driver.ErrLost
			}
			return until, err
		})),
	newExhibit("renews-out-of-order", "the results of a batch are in another order than its leases", "",
		caught{"optional/batch"}, func(b *Backend) driver.Backend { return reversed{b} }),
	newExhibit("one-fails-all-fail", "renewals are one transaction: one claim that is gone fails those that went with it, and nobody is told otherwise", "",
		caught{"loss/some-of-many", "optional/batch"}, func(b *Backend) driver.Backend { b.untold = true; return oneForAll{b} }),
	newExhibit("takes-anew-what-is-gone",
		"a renewal that finds its claim gone takes it anew, and its holder never learns that it was free in between", "Lost is not closed",
		caught{"loss/forgotten", "loss/forgotten-while-many-wait", "loss/forgotten-while-handed-on"}, func(b *Backend) driver.Backend {
			b.untold = true
			return renewing(func(b *Backend, ctx context.Context, l *lease) (time.Time, error) {
				until, err := l.Renew(ctx)
				if errors.Is(err, driver.ErrLost) {
					sent := time.Now()
					_, err = b.TryAcquire(ctx, l.req)
					until = l.until(sent)
				}
				return until, err
			})(b)
		}),
}

// renewing makes backends whose leases are renewed by renew, in batches too.
func renewing(renew func(*Backend, context.Context, *lease) (time.Time, error)) func(*Backend) driver.Backend {
	return func(b *Backend) driver.Backend {
		one := func(l *lease) driver.Lease {
			return renewed{l, func(ctx context.Context) (time.Time, error) { return renew(b, ctx, l) }}
		}
		return batches{leased(b, one).(claimed)}
	}
}

// batches renews a batch lease by lease.
type batches struct{ claimed }

// RenewBatch implements driver.BatchRenewer.
func (b batches) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	for i, l := range leases {
		results[i].Until, results[i].Err = l.Renew(ctx)
	}
}

// renewed is a lease with another renewal.
type renewed struct {
	*lease
	renew func(context.Context) (time.Time, error)
}

// Renew implements driver.Lease.
func (l renewed) Renew(ctx context.Context) (time.Time, error) { return l.renew(ctx) }

// reversed is a backend that mixes up its results.
type reversed struct{ *Backend }

// RenewBatch implements driver.BatchRenewer.
func (b reversed) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	b.Backend.RenewBatch(ctx, leases, results)
	slices.Reverse(results)
}

// oneForAll is a backend whose batches are renewed all or none.
type oneForAll struct{ *Backend }

// RenewBatch implements driver.BatchRenewer.
func (b oneForAll) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	b.Backend.RenewBatch(ctx, leases, results)
	for _, r := range results {
		if errors.Is(r.Err, driver.ErrLost) {
			for i := range results {
				results[i] = r
			}
			return
		}
	}
}
