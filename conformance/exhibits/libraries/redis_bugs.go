package libraries

import (
	"context"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// redisBugs are locks on one Redis.
var redisBugs = soundly(onRedis(func(*redisLock) {}), []Exhibit{
	{
		Name: "cleans-up-on-the-callers-context", Library: "blnk", Reference: "https://github.com/blnkfinance/blnk/issues/354", Server: Redis,
		Is:       "the key is deleted on the context of the request that took it, and stays when that has ended",
		CaughtBy: []string{"cancellation/after-each-request"}, Sees: "must be granted",
		broken: onRedis(func(l *redisLock) {
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				c, err := l.set(context.WithoutCancel(ctx), req)
				if err == nil && ctx.Err() != nil {
					_, _ = l.eval(ctx, freeScript, req)
					return nil, unavailable(ctx.Err())
				}
				return c, err
			}
		}),
	},
	{
		Name: "adds-the-drift", Library: "redlock-py", Reference: "https://github.com/SPSCommerce/redlock-py/pull/3", Server: Redis,
		Is:       "what the clocks may drift lengthens the validity, where it should shorten it",
		CaughtBy: []string{"contract/grant"}, Sees: "longer than the TTL", TTL: 5 * time.Minute, // the drift is 3 s then
		broken: onRedis(func(l *redisLock) {
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				c, err := l.set(ctx, req)
				if err == nil {
					c.grant.Until = c.grant.Until.Add(drift(req.TTL))
				}
				return c, err
			}
		}),
	},
	{
		Name: "watchdog-outlives-unlock", Library: "Redisson", Reference: "https://github.com/redisson/redisson/issues/7272", Server: Redis,
		Is:       "the renewal is scheduled when the reply is processed elsewhere; a release that is faster finds nothing to cancel, and it renews for ever",
		CaughtBy: []string{"contract/release"}, Sees: "no goroutine may be left",
		broken: onRedis(scheduleLate),
	},
	{
		Name: "watchdog-ignores-its-result", Library: "Redisson 3.10.6", Reference: "https://github.com/redisson/redisson/issues/2037", Server: Redis,
		Is:       "a renewal that finds the lock gone is as good as one that prolonged it",
		CaughtBy: []string{"ownership/late-renewal"}, Sees: "was not ErrLost but: none",
		broken: onRedis(func(l *redisLock) {
			l.renew = func(ctx context.Context, c *claim) (time.Time, error) {
				sent := time.Now()
				_, err := l.eval(ctx, renewScript, c.req)
				return sent.Add(c.req.TTL), unknown(err)
			}
		}),
	},
	{
		Name: "extend-resurrects", Library: "redlock-rb", Reference: "https://github.com/leandromoreira/redlock-rb/issues/36", Server: Redis,
		Is:       "extending a lock that is gone takes it anew, and its holder never learns that it was free in between",
		CaughtBy: []string{"loss/forgotten"}, Sees: "Lost is not closed",
		broken: onRedis(func(l *redisLock) {
			l.renew = func(ctx context.Context, c *claim) (time.Time, error) {
				next, err := l.set(ctx, c.req)
				if err != nil {
					return time.Time{}, driver.ErrLost
				}
				return next.grant.Until, nil
			}
		}),
	},
	{
		Name: "retried-set-nx", Library: "go-redis", Reference: "https://github.com/redis/go-redis/issues/2985", Server: Redis,
		Is:       "the client library repeats a SET NX whose reply was lost, and takes its own lock for somebody else's",
		CaughtBy: []string{"unknown/acquire-reply-lost"}, Sees: "the claim was carried out and its reply lost, yet it was",
		broken: func(_ context.Context, target string) (driver.Backend, error) {
			o := redisOptions(target)
			o.MaxRetries = 0 // the library's default, which is three
			l := newRedis(o)
			l.caps.Token = driver.TokenNone
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				sent := time.Now()
				granted, err := l.client.SetNX(ctx, redisKey(req.Name), req.Owner, req.TTL).Result()
				if err := held(granted, err); err != nil {
					return nil, err
				}
				return &claim{grant: driver.Grant{Until: sent.Add(req.TTL)}}, nil
			}
			return l, nil
		},
	},
	{
		Name: "incr-is-the-token", Library: "redislock", Reference: "https://github.com/bsm/redislock/pull/94", Server: Redis,
		Is:       "tokens are a counter of the server, which begins anew when the server has lost its memory, and yet are stated to rise",
		CaughtBy: []string{"fencing/restart-without-data"}, Sees: "after a restart a grant had token",
		broken: onRedis(func(l *redisLock) {
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				c, err := l.set(ctx, req)
				if err != nil {
					return nil, err
				}
				n, err := l.client.Incr(ctx, redisKey(req.Name)+":incr").Result()
				c.grant.Token = uint64(n)
				return c, unknown(err)
			}
		}),
	},
	{
		Name: "unlock-result-dropped", Library: "redsync 4.4", Reference: "https://github.com/go-redsync/redsync/issues/81", Server: Redis,
		Is:       "a release that found the lock gone is no error",
		CaughtBy: []string{"ownership/late-release"}, Sees: "was not ErrLost but: none",
		broken: onRedis(func(l *redisLock) {
			l.release = func(ctx context.Context, c *claim) error {
				_, err := l.eval(ctx, freeScript, c.req)
				return unknown(err)
			}
		}),
	},
})

// scheduleLate gives each claim a renewal of its own, which another goroutine schedules a moment after the grant.
func scheduleLate(l *redisLock) {
	const late, enough = 500 * time.Millisecond, 20 * time.Second // it is no use to renew for ever in a test
	var mu sync.Mutex
	scheduled := make(map[string]context.CancelFunc)
	watchdog := func(req driver.Request) {
		time.Sleep(late)
		ctx, cancel := context.WithTimeout(context.Background(), enough)
		mu.Lock()
		scheduled[req.Owner] = cancel
		mu.Unlock()
		for ctx.Err() == nil {
			_, _ = l.eval(ctx, renewScript, req)
			select {
			case <-time.After(req.TTL / 3):
			case <-ctx.Done():
			}
		}
	}
	cancel := func(owner string) {
		mu.Lock()
		defer mu.Unlock()
		if stop := scheduled[owner]; stop != nil {
			stop()
			delete(scheduled, owner)
		}
	}
	l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
		c, err := l.set(ctx, req)
		if err == nil {
			go watchdog(req)
		}
		return c, err
	}
	abandon := l.abandon
	l.release = func(ctx context.Context, c *claim) error { cancel(c.req.Owner); return l.free(ctx, c) }
	l.abandon = func(ctx context.Context, req driver.Request) error { cancel(req.Owner); return abandon(ctx, req) }
}

// soundly gives each of xs its sound counterpart where it has none.
func soundly(sound opener, xs []Exhibit) []Exhibit {
	for i := range xs {
		if xs[i].sound == nil {
			xs[i].sound = sound
		}
	}
	return xs
}
