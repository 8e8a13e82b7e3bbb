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
	{
		Name: "pretends-to-renew", Is: "a renewal says that it succeeded, and did nothing",
		CaughtBy: []string{"ownership/renewed-claim-stays", "ownership/late-renewal", "silence/renewal", "optional/batch-keeps"},
		broken: func(b *Backend) driver.Backend {
			return renews{b, func(_ context.Context, l driver.Lease) (time.Time, error) {
				return time.Now().Add(core(l).ttl), nil
			}}.backend()
		},
	},
	{
		Name: "renews-what-is-gone", Is: "a renewal of a claim that is gone says that it succeeded",
		CaughtBy: []string{"ownership/late-renewal", "removal/forgotten", "optional/batch"},
		broken: func(b *Backend) driver.Backend {
			return renews{b, func(ctx context.Context, l driver.Lease) (time.Time, error) {
				if until, err := core(l).Renew(ctx); err == nil {
					return until, nil
				}
				return time.Now().Add(core(l).ttl), nil
			}}.backend()
		},
	},
	{
		Name: "counts-the-renewal-from-its-reply", Is: "the validity of a renewal counts from when its reply came",
		CaughtBy: []string{"contract/renewal-counts-from-sending"}, Sees: "late",
		broken: func(b *Backend) driver.Backend {
			return renews{b, func(ctx context.Context, l driver.Lease) (time.Time, error) {
				_, err := core(l).Renew(ctx)
				return time.Now().Add(core(l).ttl), err
			}}.backend()
		},
	},
	{
		Name: "believes-a-renewal-without-a-reply", Is: "a renewal counts although its reply did not come",
		CaughtBy: []string{"silence/frozen", "silence/gone"}, Sees: "the holder said Valid",
		broken: func(b *Backend) driver.Backend {
			return renews{b, func(ctx context.Context, l driver.Lease) (time.Time, error) {
				_, _ = core(l).Renew(ctx)
				return time.Now().Add(core(l).ttl), nil
			}}.backend()
		},
	},
	{
		Name: "says-lost-of-a-failed-renewal", Is: "a renewal whose reply did not come says that the claim is gone",
		CaughtBy: []string{"unknown/renewal-reply-lost", "silence/renewal-reply-lost"},
		broken: func(b *Backend) driver.Backend {
			return renews{b, func(ctx context.Context, l driver.Lease) (time.Time, error) {
				until, err := core(l).Renew(ctx)
				if err != nil {
					err = driver.ErrLost
				}
				return until, err
			}}.backend()
		},
	},
	{
		Name: "renews-out-of-order", Is: "the results of a batch are in another order than its leases",
		CaughtBy: []string{"optional/batch"},
		broken:   func(b *Backend) driver.Backend { return reversed{b} },
	},
	{
		Name: "one-fails-all-fail", Is: "renewals are one transaction: one claim that is gone fails those that went with it, and nobody is told otherwise",
		CaughtBy: []string{"loss/some-of-many", "optional/batch"},
		broken:   func(b *Backend) driver.Backend { b.untold = true; return oneForAll{b} },
	},
	{
		Name: "takes-anew-what-is-gone", Is: "a renewal that finds its claim gone takes it anew, and its holder never learns that it was free in between",
		CaughtBy: []string{"loss/forgotten", "loss/forgotten-while-many-wait", "loss/forgotten-while-handed-on"}, Sees: "Lost is not closed",
		broken: func(b *Backend) driver.Backend {
			b.untold = true
			return renews{b, func(ctx context.Context, l driver.Lease) (time.Time, error) {
				until, err := core(l).Renew(ctx)
				if errors.Is(err, driver.ErrLost) {
					sent := time.Now()
					_, err = b.TryAcquire(ctx, core(l).req)
					until = core(l).until(sent)
				}
				return until, err
			}}.backend()
		},
	},
}

// renews is a backend whose leases are renewed in another way, in batches too.
type renews struct {
	*Backend
	renew func(context.Context, driver.Lease) (time.Time, error)
}

func (b renews) backend() driver.Backend {
	inner := b.Backend
	return batches{leased(inner, func(l *lease) driver.Lease { return renewed{l, b.renew} }).(claimed), b.renew}
}

// batches renews a batch lease by lease.
type batches struct {
	claimed
	renew func(context.Context, driver.Lease) (time.Time, error)
}

// RenewBatch implements driver.BatchRenewer.
func (b batches) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	for i, l := range leases {
		results[i].Until, results[i].Err = b.renew(ctx, l)
	}
}

// renewed is a lease with another renewal.
type renewed struct {
	*lease
	renew func(context.Context, driver.Lease) (time.Time, error)
}

// Renew implements driver.Lease.
func (l renewed) Renew(ctx context.Context) (time.Time, error) { return l.renew(ctx, l.lease) }

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
