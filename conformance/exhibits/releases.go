package exhibits

import (
	"context"

	"github.com/lockport/lockport/driver"
)

// releases are locks that release nothing, or other holders' claims.
var releases = []Exhibit{
	{"releases-nothing", "a release returns nil and does nothing",
		caught{"contract/release": "nobody has the name, yet a claim was not granted"}, releasing(func(context.Context, *lease) error { return nil })},
	{"releases-whoever-holds", "plain DEL: a release ends any holder's claim",
		caught{"ownership/late-release": "was not ErrLost but: no error", "ownership/abandon-twice": "holder has not released the name, yet",
			"ownership/abandon-twice-same-client": "holder has not released the name, yet"}, releasing(func(ctx context.Context, l *lease) error {
			l.lock.take(l.req.Name)
			return nil
		})},
	{"releases-what-its-client-has", "a repeated release ends the client's next claim on the name",
		caught{"unknown/release-reply-lost-same-client": "yet another claim was granted"}, releasing(func(ctx context.Context, l *lease) error {
			if _, again := l.lock.shared.LoadOrStore(l.req.Owner, true); again {
				client := driver.OwnerClient(l.req.Owner)
				l.lock.takeFrom(ctx, l.req.Name, func(owner string) bool { return driver.OwnerClient(owner) == client })
			}
			return l.Lease.Release(ctx)
		})},
	{"says-nil-of-a-late-release", "a late release returns nil",
		caught{"ownership/late-release": "was not ErrLost"}, releasing(func(ctx context.Context, l *lease) error { _ = l.Lease.Release(ctx); return nil })},
	{"abandons-whoever-holds", "Abandon ends any holder's claim",
		caught{"ownership/abandon-of-others": "holder has not released the name, yet",
			"ownership/abandon-twice": "holder has not released the name, yet", "ownership/late-abandon": "holder has not released the name, yet"}, func(l *lock) {
			l.abandon = func(_ context.Context, req driver.Request) error { l.take(req.Name); return nil }
		}},
	{"breaks-whoever-holds", "Break does not compare owners",
		caught{"removal/broken": "Break of an owner that does not have the name"}, func(l *lock) {
			l.end = func(_ context.Context, name, _ string) error { l.sound.Server().Lose(name, nil); return nil }
		}},
}

// releasing replaces how a lease is released.
func releasing(release func(context.Context, *lease) error) func(*lock) {
	return func(l *lock) { l.release = release }
}
