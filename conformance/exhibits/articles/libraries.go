package articles

import (
	"context"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Libraries are bugs that locks on Redis of other projects have or had. Article is where each was reported.
func Libraries() []Exhibit {
	all := []Exhibit{
		{
			Name: "cleans-up-on-the-callers-context", Library: "blnk", Article: "https://github.com/blnkfinance/blnk/issues/354",
			Is:       "the key is deleted on the context of the request that took it, and stays when that has ended",
			CaughtBy: []string{"cancellation/after-each-request"}, Sees: []string{"must be granted"},
			one: func(l *lock) driver.Backend { return &cleaning{l} },
		},
		{
			Name: "extend-resurrects", Library: "redlock-rb", Article: "https://github.com/leandromoreira/redlock-rb/issues/36",
			Is:       "extending a lock that is gone takes it anew, and its holder never learns that it was free in between",
			CaughtBy: []string{"loss/forgotten"}, Sees: []string{"Lost is not closed"},
			one: func(l *lock) driver.Backend {
				prolong := l.prolong
				l.prolong = func(ctx context.Context, c claim) (bool, error) {
					ours, err := prolong(ctx, c)
					if err == nil && !ours {
						return l.take(ctx, c)
					}
					return ours, err
				}
				return l
			},
		},
		{
			Name: "retried-set-nx", Library: "go-redis", Article: "https://github.com/redis/go-redis/issues/2985",
			Is:       "the client library repeats a SET NX whose reply was lost, and takes its own lock for somebody else's",
			CaughtBy: []string{"unknown/acquire-reply-lost"}, Sees: []string{"the claim was carried out and its reply lost, yet it was"},
			client: func(o *goredis.Options) { o.MaxRetries = 3 }, // the library's default
			one:    unchanged,
		},
	}
	for i := range all {
		all[i].Nodes = 1
	}
	return all
}

// cleaning is a lock that undoes a claim whose caller has gone, with what the caller left it.
type cleaning struct{ *lock }

// TryAcquire implements driver.Backend.
func (b *cleaning) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	l, err := b.lock.TryAcquire(context.WithoutCancel(ctx), req)
	if err == nil && ctx.Err() != nil {
		_ = l.Release(ctx)
		return nil, unavailable(ctx.Err())
	}
	return l, err
}
