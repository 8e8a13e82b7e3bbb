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
	{"pretends-to-renew", "a renewal returns success and does nothing",
		caught{"ownership/renewed-claim-stays": "successfully and in time, yet", "ownership/late-renewal": "was not ErrLost but: no error",
			"silence/renewal": "the holder has not released the name"},
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
