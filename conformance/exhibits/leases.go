package exhibits

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

// releases are locks that release nothing, or other holders' claims.
var releases = []Exhibit{
	{"releases-nothing", "a release returns nil and does nothing",
		caught{"exclusion/two-backends": "nobody has the name, yet a claim was not granted", "exclusion/two-claims": "claimed once and released once",
			"close/holding": "the holder's client was closed, but Acquire"}, releasing(func(context.Context, *lease) error { return nil })},
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

// renewals are locks that renew wrongly.
var renewals = []Exhibit{
	{"pretends-to-renew", "a renewal returns success and does nothing",
		caught{"ownership/late-renewal": "was not ErrLost but: no error", "silence/renewal": "the holder has not released the name"},
		renewing(func(_ context.Context, l *lease) (time.Time, error) { return time.Now().Add(l.req.TTL), nil })},
	{"renews-what-is-gone", "the renewal of a lost claim returns success",
		caught{"ownership/late-renewal": "not ErrLost but: no error", "removal/forgotten": "not ErrLost but: no error",
			"contract/renewal": "not ErrLost but: no error"}, renewing(func(ctx context.Context, l *lease) (time.Time, error) {
			if until, err := l.soundly(ctx); err == nil {
				return until, nil
			}
			return time.Now().Add(l.req.TTL), nil
		})},
	{"counts-the-renewal-from-its-reply", "the validity of a renewal counts from its reply",
		caught{"contract/renewal-counts-from-sending": "late"}, renewing(func(ctx context.Context, l *lease) (time.Time, error) {
			_, err := l.soundly(ctx)
			return time.Now().Add(l.req.TTL), err
		})},
	{"believes-a-renewal-without-a-reply", "a renewal without a reply counts as success",
		caught{"silence/frozen": "the holder said Valid", "silence/gone": "the holder said Valid"}, renewing(func(ctx context.Context, l *lease) (time.Time, error) {
			_, _ = l.soundly(ctx)
			return time.Now().Add(l.req.TTL), nil
		})},
	{"says-lost-of-a-failed-renewal", "a renewal without a reply returns ErrLost",
		caught{"unknown/renewal-reply-lost": "lock was lost", "silence/renewal-reply-lost": "lock was lost"}, renewing(func(ctx context.Context, l *lease) (time.Time, error) {
			until, err := l.soundly(ctx)
			if err != nil {
				err = driver.ErrLost
			}
			return until, err
		})},
	{"renews-out-of-order", "the results of a batch are in the wrong order",
		caught{"contract/renewal": "is for a held claim, but"}, func(l *lock) {
			l.batch = slices.Reverse[[]driver.Renewal]
		}},
	{"one-fails-all-fail", "renewals are one transaction: one lost claim fails the others with it",
		caught{"loss/some-of-many": "another one is lost too", "contract/renewal": "is for a held claim, but"}, func(l *lock) {
			l.request = untold
			l.batch = func(results []driver.Renewal) {
				isLost := func(r driver.Renewal) bool { return errors.Is(r.Err, driver.ErrLost) }
				if i := slices.IndexFunc(results, isLost); i >= 0 {
					copy(results, slices.Repeat(results[i:i+1], len(results)))
				}
			}
		}},
	{"takes-anew-what-is-gone",
		"the renewal of a lost claim takes it again, and its holder never learns that it was free in between",
		caught{"loss/forgotten": "Lost is not closed", "loss/forgotten-while-many-wait": "Lost is not closed",
			"loss/forgotten-while-handed-on": "Lost is not closed"}, func(l *lock) {
			l.request = untold
			l.renew = func(ctx context.Context, l *lease) (time.Time, error) {
				sent := time.Now()
				until, err := l.soundly(ctx)
				if errors.Is(err, driver.ErrLost) {
					_, err = l.lock.sound.TryAcquire(ctx, l.req)
					until = sent.Add(l.req.TTL)
				}
				return until, err
			}
		}},
}

// renewing replaces how a lease is renewed, in batches too.
func renewing(renew func(context.Context, *lease) (time.Time, error)) func(*lock) {
	return func(l *lock) { l.renew = renew }
}

// untold makes the server report no lost claim.
func untold(req *driver.Request) { req.Lost = nil }
