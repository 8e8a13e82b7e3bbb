package libraries

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
)

// Redsync is redsync on one server, as in its README. Redlock is redsync on five, as the algorithm prescribes.
var (
	Redsync = redsyncOn("redsync, one server", "redis", "one server")
	Redlock = redsyncOn("redsync, five servers", "redlock", "five")
)

func redsyncOn(name, environment, servers string) Subject {
	return Subject{
		Name: name, Library: "redsync", Module: "github.com/go-redsync/redsync/v4", Environment: environment,
		Use: "TryLockContext, ExtendContext, UnlockContext with its own settings on " + servers,
		Promises: map[string]string{
			"P1":  "README: \"a Redis-based distributed mutual exclusion lock implementation\"",
			"P3a": "Until: \"returns the time of validity of acquired lock\"",
			"P4":  "Unlock: \"unlocks m and returns the status of unlock\"",
			"P5":  "WithExpiry: \"can be used to set the expiry of a mutex to the given value\"",
			"P9":  "NewMutex takes the name as the key",
		},
		Explained: map[string]string{"giving-up/release-reply-lost": "redislock-release, below"},
		Caps:      driver.Capabilities{Ends: driver.EndsTTL, MinTTL: time.Millisecond, TTLGrain: time.Millisecond},
		Open:      openRedsync,
		IsOp:      redisWords(map[conformance.Op]string{conformance.OpAcquire: `\r\nnx\r\n`, conformance.OpRenew: `\*6` + script, conformance.OpRelease: `\*5` + script}),
	}
}

func openRedsync(_ context.Context, rawURL string, _ time.Duration) (library.Client, error) {
	all := GoRedis(rawURL)
	var pools []redis.Pool
	for _, c := range all {
		pools = append(pools, goredis.NewPool(c))
	}
	rs := redsync.New(pools...)
	return library.Client{Close: all.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		m := rs.NewMutex(c.Name, redsync.WithExpiry(c.TTL), redsync.WithTries(math.MaxInt)) // TryLockContext still makes one attempt
		if err := Either(c.Wait, m.LockContext, m.TryLockContext)(ctx); err != nil {
			return nil, HeldIf(errors.As(err, new(*redsync.ErrTaken)), err)
		}
		return &library.Hold{
			Until: m.Until(),
			Renew: func(ctx context.Context) (time.Time, error) {
				ok, err := m.ExtendContext(ctx)
				return m.Until(), redsyncLost(ok, err)
			},
			Release: func(ctx context.Context) error { return redsyncLost(m.UnlockContext(ctx)) },
		}, nil
	}}, nil
}

// redsyncLost returns ErrLost if most servers say that they do not have the lock.
func redsyncLost(ok bool, err error) error {
	if ok {
		return nil
	}
	return library.LostIf(err == nil || errors.As(err, new(*redsync.ErrTaken)) || errors.Is(err, redsync.ErrLockAlreadyExpired), err)
}
