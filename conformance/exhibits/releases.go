package exhibits

import (
	"context"

	"github.com/lockport/lockport/driver"
)

// releases are locks that give back what is not theirs.
var releases = []Exhibit{
	newExhibit("releases-whoever-holds", "plain DEL: a release ends whatever claim there is", "",
		caught{"ownership/release-twice", "ownership/late-release", "ownership/release-twice-same-client"}, releasing(func(b *Backend, _ context.Context, l *lease) error {
			b.wire.server.LoseSilently(l.req.Name)
			return nil
		})),
	newExhibit("compares-then-deletes", "GET, then DEL: a release that takes too long between the two ends the next holder's claim", "longer than the TTL",
		caught{"ownership/slow-release"}, releasing(func(b *Backend, ctx context.Context, l *lease) error {
			st, err := b.Inspect(ctx, l.req.Name)
			if err != nil {
				return err
			}
			if st.Owner != l.req.Owner {
				return driver.ErrLost
			}
			b.wire.server.LoseSilently(l.req.Name)
			return nil
		})),
	newExhibit("releases-what-its-client-has", "a release that is repeated ends whatever claim its client has on the name by then", "yet another claim was granted",
		caught{"unknown/release-reply-lost-same-client"}, func(b *Backend) driver.Backend {
			return leased(b, func(l *lease) driver.Lease {
				again := false
				return released{l, func(ctx context.Context) error {
					st, _ := b.Inspect(ctx, l.req.Name)
					if again && driver.OwnerClient(st.Owner) == driver.OwnerClient(l.req.Owner) {
						b.wire.server.LoseSilently(l.req.Name)
						return nil
					}
					again = true
					return l.Release(ctx)
				}}
			})
		}),
	newExhibit("says-lost-of-a-second-release", "a release that is repeated says that the claim was lost", "second release",
		caught{"ownership/release-twice"}, releasing(func(b *Backend, ctx context.Context, l *lease) error {
			if st, _ := b.Inspect(ctx, l.req.Name); st.Owner != l.req.Owner {
				return driver.ErrLost
			}
			return l.Release(ctx)
		})),
	newExhibit("says-nil-of-a-late-release", "a release that came too late is no error", "was not ErrLost",
		caught{"ownership/late-release"}, releasing(func(_ *Backend, ctx context.Context, l *lease) error { _ = l.Release(ctx); return nil })),
	newExhibit("abandons-whoever-holds", "Abandon ends whatever claim there is", "",
		caught{"ownership/abandon-of-others", "ownership/abandon-twice", "ownership/late-abandon"}, func(b *Backend) driver.Backend {
			return abandons{b, func(_ context.Context, req driver.Request) error {
				b.wire.server.LoseSilently(req.Name)
				return nil
			}}
		}),
	newExhibit("breaks-whoever-holds", "Break does not look whose claim it ends", "Break of an owner that does not have the name",
		caught{"removal/broken"}, func(b *Backend) driver.Backend { return breaks{b} }),
}

// released is a lease with another release.
type released struct {
	*lease
	release func(context.Context) error
}

// releasing makes backends whose leases are released by release.
func releasing(release func(*Backend, context.Context, *lease) error) func(*Backend) driver.Backend {
	return func(b *Backend) driver.Backend {
		return leased(b, func(l *lease) driver.Lease {
			return released{l, func(ctx context.Context) error { return release(b, ctx, l) }}
		})
	}
}

// Release implements driver.Lease.
func (l released) Release(ctx context.Context) error { return l.release(ctx) }

// abandons is a backend with another Abandon.
type abandons struct {
	*Backend
	abandon func(context.Context, driver.Request) error
}

// Abandon implements driver.Backend.
func (b abandons) Abandon(ctx context.Context, req driver.Request) error { return b.abandon(ctx, req) }

// breaks is a backend with another Break.
type breaks struct{ *Backend }

// Break implements driver.Breaker.
func (b breaks) Break(_ context.Context, name, _ string) error {
	b.wire.server.Lose(name, nil)
	return nil
}
