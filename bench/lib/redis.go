package lib

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/measure"
)

// poolSize is that of every go-redis client but lockport's own: with go-redis' own setting, ten for each core, goroutines would wait for connections,
// and some of them in vain.
const poolSize = 64

// nodes are clients of the servers that a URL names: one, or those of redlock://host,host.
type nodes []*goredis.Client

func goRedis(c measure.Config) (all nodes) {
	for _, host := range hosts(c) {
		all = append(all, goredis.NewClient(&goredis.Options{Addr: host, PoolSize: poolSize}))
	}
	return all
}

func (all nodes) Close() (err error) {
	for _, c := range all {
		err = errors.Join(err, c.Close())
	}
	return err
}

func openRedislock(_ context.Context, c measure.Config) (measure.Locker, error) {
	all := goRedis(c)
	client := redislock.New(all[0])
	return measure.Locker{Close: all.Close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		retry := either(wait, redislock.LinearBackoff(100*time.Millisecond), redislock.NoRetry())
		lock, err := client.Obtain(ctx, name, c.TTL, &redislock.Options{RetryStrategy: retry})
		if err != nil {
			return nil, heldIf(errors.Is(err, redislock.ErrNotObtained), err)
		}
		return loop(c, lock.Release, func(ctx context.Context) error { return lock.Refresh(ctx, c.TTL, nil) }), nil
	}}, nil
}

func openRedsync(_ context.Context, c measure.Config) (measure.Locker, error) {
	all := goRedis(c)
	var pools []redis.Pool
	for _, n := range all {
		pools = append(pools, pool.NewPool(n))
	}
	rs := redsync.New(pools...)
	return measure.Locker{Close: all.Close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(c.TTL), redsync.WithTries(math.MaxInt))
		if err := either(wait, m.LockContext, m.TryLockContext)(ctx); err != nil {
			var taken *redsync.ErrTaken
			return nil, heldIf(!wait && (errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed)), err)
		}
		unlock := func(ctx context.Context) error { return unlessHeld(m.UnlockContext(ctx)) }
		return loop(c, unlock, func(ctx context.Context) error { return unlessHeld(m.ExtendContext(ctx)) }), nil
	}}, nil
}

func openPings(_ context.Context, c measure.Config) (measure.Locker, error) {
	all := goRedis(c)
	ping := func(ctx context.Context) error { return all[0].Ping(ctx).Err() }
	return measure.Locker{Close: all.Close, Acquire: func(ctx context.Context, _ string, _ bool) (measure.Release, error) { return ping, ping(ctx) }}, nil
}

// bareValue is what keys have: a real lock would draw one, which costs the client alone.
const bareValue = "0123456789abcdef0123456789abcdef"

// setNX is the bare claim.
func setNX(ctx context.Context, client *goredis.Client, name string, ttl time.Duration) error {
	err := client.SetArgs(ctx, name, bareValue, goredis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	return heldIf(errors.Is(err, goredis.Nil), err)
}

func openBareRedis(ctx context.Context, c measure.Config) (measure.Locker, error) {
	all := goRedis(c)
	release := goredis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	return measure.Locker{Close: all.Close, Acquire: func(ctx context.Context, name string, _ bool) (measure.Release, error) {
		return func(ctx context.Context) error {
			n, err := release.EvalSha(ctx, all[0], []string{name}, bareValue).Int()
			return unlessHeld(n == 1, err)
		}, setNX(ctx, all[0], name, c.TTL)
	}}, release.Load(ctx, all[0]).Err()
}

// openPublished opens the least that tells a waiter in another process of a release, and has it take the name. It serves one waiter.
func openPublished(_ context.Context, c measure.Config) (measure.Locker, error) {
	all := goRedis(c)
	return measure.Locker{Close: all.Close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		release := func(ctx context.Context) error {
			_, err := all[0].Pipelined(ctx, func(p goredis.Pipeliner) error {
				p.Del(ctx, name)
				return p.Publish(ctx, "released:"+name, "").Err()
			})
			return err
		}
		try := func() error { return setNX(ctx, all[0], name, c.TTL) }
		if err := try(); !wait || !errors.Is(err, lockport.ErrHeld) {
			return release, err
		}
		told := all[0].Subscribe(ctx, "released:"+name)
		defer func() { _ = told.Close() }()
		if _, err := told.Receive(ctx); err != nil { // that it is subscribed
			return nil, err
		}
		return release, untilTaken(try, func() error { _, err := told.ReceiveMessage(ctx); return err })
	}}, nil
}
