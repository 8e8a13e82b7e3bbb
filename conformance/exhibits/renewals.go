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
		sees{"successfully and in time, yet", "was not ErrLost but: no error", "the holder has not released the name"},
		caught{"ownership/renewed-claim-stays", "ownership/late-renewal", "silence/renewal"},
		renewing(func(_ context.Context, l *lease) (time.Time, error) { return time.Now().Add(l.req.TTL), nil })},
	{"renews-what-is-gone", "the renewal of a lost claim returns success", sees{"not ErrLost but: no error"},
		caught{"ownership/late-renewal", "removal/forgotten", "optional/batch"}, renewing(func(ctx context.Context, l *lease) (time.Time, error) {
			if until, err := l.soundly(ctx); err == nil {
				return until, nil
			}
			return time.Now().Add(l.req.TTL), nil
		})},
	{"counts-the-renewal-from-its-reply", "the validity of a renewal counts from its reply", sees{"late"},
		caught{"contract/renewal-counts-from-sending"}, renewing(func(ctx context.Context, l *lease) (time.Time, error) {
			_, err := l.soundly(ctx)
			return time.Now().Add(l.req.TTL), err
		})},
	{"believes-a-renewal-without-a-reply", "a renewal without a reply counts as success", sees{"the holder said Valid"},
		caught{"silence/frozen", "silence/gone"}, renewing(func(ctx context.Context, l *lease) (time.Time, error) {
			_, _ = l.soundly(ctx)
			return time.Now().Add(l.req.TTL), nil
		})},
	{"says-lost-of-a-failed-renewal", "a renewal without a reply returns ErrLost", sees{"lock was lost"},
		caught{"unknown/renewal-reply-lost", "silence/renewal-reply-lost"}, renewing(func(ctx context.Context, l *lease) (time.Time, error) {
			until, err := l.soundly(ctx)
			if err != nil {
				err = driver.ErrLost
			}
			return until, err
		})},
	{"renews-out-of-order", "the results of a batch are in the wrong order", sees{"is for a held claim, but"},
		caught{"optional/batch"}, func(l *lock) {
			l.batch = slices.Reverse[[]driver.Renewal]
		}},
	{"one-fails-all-fail", "renewals are one transaction: one lost claim fails the others with it", sees{"another one is lost too", "is for a held claim, but"},
		caught{"loss/some-of-many", "optional/batch"}, func(l *lock) {
			l.request = untold
			l.batch = func(results []driver.Renewal) {
				isLost := func(r driver.Renewal) bool { return errors.Is(r.Err, driver.ErrLost) }
				if i := slices.IndexFunc(results, isLost); i >= 0 {
					copy(results, slices.Repeat(results[i:i+1], len(results)))
				}
			}
		}},
	{"takes-anew-what-is-gone",
		"the renewal of a lost claim takes it again, and its holder never learns that it was free in between", sees{"Lost is not closed"},
		caught{"loss/forgotten", "loss/forgotten-while-many-wait", "loss/forgotten-while-handed-on"}, func(l *lock) {
			l.request = untold
			renewing(func(ctx context.Context, l *lease) (time.Time, error) {
				sent := time.Now()
				until, err := l.soundly(ctx)
				if errors.Is(err, driver.ErrLost) {
					_, err = l.lock.sound.TryAcquire(ctx, l.req)
					until = sent.Add(l.req.TTL)
				}
				return until, err
			})(l)
		}},
}

// renewing replaces how a lease is renewed, in batches too.
func renewing(renew func(context.Context, *lease) (time.Time, error)) func(*lock) {
	return func(l *lock) { l.renew = renew }
}

// untold makes the server report no lost claim.
func untold(req *driver.Request) { req.Lost = nil }
