package exhibits

import (
	"context"

	"github.com/lockport/lockport/driver"
)

// releases are locks that release nothing, or other holders' claims.
var releases = []Exhibit{
	{"releases-nothing", "a release returns nil and does nothing", sees{"nobody has the name, yet a claim was not granted"},
		caught{"contract/release"}, releasing(func(context.Context, *lease) error { return nil })},
	{"releases-whoever-holds", "plain DEL: a release ends any holder's claim",
		sees{"was not ErrLost but: no error", "holder has not released the name, yet", "holder has not released the name, yet"},
		caught{"ownership/late-release", "ownership/abandon-twice", "ownership/abandon-twice-same-client"}, releasing(func(ctx context.Context, l *lease) error {
			l.lock.take(l.req.Name)
			return nil
		})},
	{"releases-what-its-client-has", "a repeated release ends the client's next claim on the name", sees{"yet another claim was granted"},
		caught{"unknown/release-reply-lost-same-client"}, releasing(func(ctx context.Context, l *lease) error {
			if _, again := l.lock.shared.LoadOrStore(l.req.Owner, true); again {
				client := driver.OwnerClient(l.req.Owner)
				l.lock.takeFrom(ctx, l.req.Name, func(owner string) bool { return driver.OwnerClient(owner) == client })
			}
			return l.Lease.Release(ctx)
		})},
	{"says-nil-of-a-late-release", "a late release returns nil", sees{"was not ErrLost"},
		caught{"ownership/late-release"}, releasing(func(ctx context.Context, l *lease) error { _ = l.Lease.Release(ctx); return nil })},
	{"abandons-whoever-holds", "Abandon ends any holder's claim", sees{"holder has not released the name, yet"},
		caught{"ownership/abandon-of-others", "ownership/abandon-twice", "ownership/late-abandon"}, func(l *lock) {
			l.abandon = func(_ context.Context, req driver.Request) error { l.take(req.Name); return nil }
		}},
	{"breaks-whoever-holds", "Break does not compare owners", sees{"Break of an owner that does not have the name"},
		caught{"removal/broken"}, func(l *lock) {
			l.end = func(_ context.Context, name, _ string) error { l.sound.Server().Lose(name, nil); return nil }
		}},
}

// releasing replaces how a lease is released.
func releasing(release func(context.Context, *lease) error) func(*lock) {
	return func(l *lock) { l.release = release }
}
