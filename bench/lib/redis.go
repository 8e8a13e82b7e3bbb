package lib

import (
	"context"
	"errors"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/lab/measure"
)

// poolSize is that of every go-redis client but lockport's own: with go-redis' own setting, ten for each core, goroutines would wait for connections,
// and some of them in vain.
const poolSize = 64

// clients are clients of the servers that a URL names: one, or those of redlock://host,host.
type clients []*goredis.Client

func goRedis(rawURL string) (all clients, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	for _, host := range strings.Split(u.Host, ",") {
		one := url.URL{Scheme: "redis", User: u.User, Host: host, Path: u.Path}
		o, err := goredis.ParseURL(one.String())
		if err != nil {
			return nil, err
		}
		o.PoolSize = poolSize
		all = append(all, goredis.NewClient(o))
	}
	return all, nil
}

func (all clients) close() (err error) {
	for _, c := range all {
		err = errors.Join(err, c.Close())
	}
	return err
}

func openRedislock(_ context.Context, c measure.Config) (l measure.Locker, err error) {
	nodes, err := goRedis(c.URL)
	if err != nil {
		return l, err
	}
	client := redislock.New(nodes[0])
	return measure.Locker{Close: nodes.close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		retry := redislock.NoRetry()
		if wait {
			retry = redislock.LinearBackoff(100 * time.Millisecond)
		}
		lock, err := client.Obtain(ctx, name, c.TTL, &redislock.Options{RetryStrategy: retry})
		if errors.Is(err, redislock.ErrNotObtained) {
			return nil, measure.ErrHeld
		}
		if err != nil {
			return nil, err
		}
		return loop(c, lock.Release, func(ctx context.Context) error { return lock.Refresh(ctx, c.TTL, nil) }), nil
	}}, nil
}

func openRedsync(_ context.Context, c measure.Config) (l measure.Locker, err error) {
	nodes, err := goRedis(c.URL)
	if err != nil {
		return l, err
	}
	var pools []redis.Pool
	for _, n := range nodes {
		pools = append(pools, pool.NewPool(n))
	}
	rs := redsync.New(pools...)
	return measure.Locker{Close: nodes.close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(c.TTL), redsync.WithTries(math.MaxInt))
		lock := m.TryLockContext
		if wait {
			lock = m.LockContext
		}
		err := lock(ctx)
		var taken *redsync.ErrTaken
		if !wait && (errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed)) {
			return nil, measure.ErrHeld
		}
		if err != nil {
			return nil, err
		}
		unlock := func(ctx context.Context) error { return unlessHeld(m.UnlockContext(ctx)) }
		return loop(c, unlock, func(ctx context.Context) error { return unlessHeld(m.ExtendContext(ctx)) }), nil
	}}, nil
}

func openPings(_ context.Context, c measure.Config) (l measure.Locker, err error) {
	nodes, err := goRedis(c.URL)
	ping := func(ctx context.Context) error { return nodes[0].Ping(ctx).Err() }
	return measure.Locker{Close: nodes.close, Acquire: func(ctx context.Context, _ string, _ bool) (measure.Release, error) { return ping, ping(ctx) }}, err
}

// bareValue is what keys have: a real lock would draw one, which costs the client alone.
const bareValue = "0123456789abcdef0123456789abcdef"

// setNX is the bare claim.
func setNX(ctx context.Context, client *goredis.Client, name string, ttl time.Duration) error {
	err := client.SetArgs(ctx, name, bareValue, goredis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	if errors.Is(err, goredis.Nil) {
		return measure.ErrHeld
	}
	return err
}

func openBareRedis(ctx context.Context, c measure.Config) (l measure.Locker, err error) {
	nodes, err := goRedis(c.URL)
	if err != nil {
		return l, err
	}
	release := goredis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	return measure.Locker{Close: nodes.close, Acquire: func(ctx context.Context, name string, _ bool) (measure.Release, error) {
		return func(ctx context.Context) error {
			n, err := release.EvalSha(ctx, nodes[0], []string{name}, bareValue).Int()
			return unlessHeld(n == 1, err)
		}, setNX(ctx, nodes[0], name, c.TTL)
	}}, release.Load(ctx, nodes[0]).Err()
}

// openPublished opens the least that tells a waiter in another process of a release, and has it take the name. It serves one waiter.
func openPublished(_ context.Context, c measure.Config) (l measure.Locker, err error) {
	nodes, err := goRedis(c.URL)
	if err != nil {
		return l, err
	}
	client := nodes[0]
	return measure.Locker{Close: nodes.close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		try := func() (measure.Release, error) {
			return func(ctx context.Context) error {
				_, err := client.Pipelined(ctx, func(p goredis.Pipeliner) error {
					p.Del(ctx, name)
					p.Publish(ctx, "released:"+name, "")
					return nil
				})
				return err
			}, setNX(ctx, client, name, c.TTL)
		}
		if r, err := try(); !wait || !errors.Is(err, measure.ErrHeld) {
			return r, err
		}
		told := client.Subscribe(ctx, "released:"+name)
		defer func() { _ = told.Close() }()
		if _, err := told.Receive(ctx); err != nil { // that it is subscribed
			return nil, err
		}
		return untilTaken(try, func() error { _, err := told.ReceiveMessage(ctx); return err })
	}}, nil
}
