package exhibits

import (
	"context"

	"github.com/lockport/lockport/driver"
)

// releases are locks that give back what is not theirs.
var releases = []Exhibit{
	{
		Name: "releases-whoever-holds", Is: "plain DEL: a release ends whatever claim there is",
		CaughtBy: []string{"ownership/release-twice", "ownership/late-release", "ownership/release-twice-same-client"},
		broken: func(b *Backend) driver.Backend {
			return leased(b, func(l *lease) driver.Lease {
				return released{l, func(context.Context) error {
					b.wire.server.LoseSilently(l.req.Name)
					return nil
				}}
			})
		},
	},
	{
		Name: "compares-then-deletes", Is: "GET, then DEL: a release that takes too long between the two ends the next holder's claim",
		CaughtBy: []string{"ownership/slow-release"}, Sees: "longer than the TTL",
		broken: func(b *Backend) driver.Backend {
			return leased(b, func(l *lease) driver.Lease {
				return released{l, func(ctx context.Context) error {
					st, err := b.Inspect(ctx, l.req.Name)
					if err != nil {
						return err
					}
					if st.Owner != l.req.Owner {
						return driver.ErrLost
					}
					b.wire.server.LoseSilently(l.req.Name)
					return nil
				}}
			})
		},
	},
	{
		Name: "releases-what-its-client-has", Is: "a release that is repeated ends whatever claim its client has on the name by then",
		CaughtBy: []string{"unknown/release-reply-lost-same-client"}, Sees: "yet another claim was granted",
		broken: func(b *Backend) driver.Backend {
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
		},
	},
	{
		Name: "says-lost-of-a-second-release", Is: "a release that is repeated says that the claim was lost",
		CaughtBy: []string{"ownership/release-twice"}, Sees: "second release",
		broken: func(b *Backend) driver.Backend {
			return leased(b, func(l *lease) driver.Lease {
				return released{l, func(ctx context.Context) error {
					if st, _ := b.Inspect(ctx, l.req.Name); st.Owner != l.req.Owner {
						return driver.ErrLost
					}
					return l.Release(ctx)
				}}
			})
		},
	},
	{
		Name: "says-nil-of-a-late-release", Is: "a release that came too late is no error",
		CaughtBy: []string{"ownership/late-release"}, Sees: "was not ErrLost",
		broken: func(b *Backend) driver.Backend {
			return leased(b, func(l *lease) driver.Lease {
				return released{l, func(ctx context.Context) error { _ = l.Release(ctx); return nil }}
			})
		},
	},
	{
		Name: "abandons-whoever-holds", Is: "Abandon ends whatever claim there is",
		CaughtBy: []string{"ownership/abandon-of-others", "ownership/abandon-twice", "ownership/late-abandon"},
		broken: func(b *Backend) driver.Backend {
			return abandons{b, func(_ context.Context, req driver.Request) error {
				b.wire.server.LoseSilently(req.Name)
				return nil
			}}
		},
	},
	{
		Name: "breaks-whoever-holds", Is: "Break does not look whose claim it ends",
		CaughtBy: []string{"removal/broken"}, Sees: "Break of an owner that does not have the name",
		broken: func(b *Backend) driver.Backend { return breaks{b} },
	},
}

// released is a lease with another release.
type released struct {
	*lease
	release func(context.Context) error
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
