package lib

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
)

func init() {
	register(Library{
		Name: "redislock", Family: "redis", Kind: Theirs, Module: "github.com/bsm/redislock",
		How:     "Obtain with LinearBackoff(100ms), which is the one of its examples, and Release",
		Renewal: LoopEach, Waits: true,
		MostWaiters: 1000, WhyMost: "it asks ten times a second for each waiter",
		Open: openRedislock,
	})
	for family, mostHeld := range map[string]int{"redis": 0, "redlock": 1000} { // on five servers each loop asks all of them
		register(Library{
			Name: "redsync", Family: family, Kind: Theirs, Module: "github.com/go-redsync/redsync/v4",
			How:     "NewMutex with any number of tries, LockContext and UnlockContext",
			Renewal: LoopEach, Waits: true,
			MostWaiters: 1000, MostHeld: mostHeld, WhyMost: "it asks every server some seven times a second for each waiter, and three times in a TTL for each lock",
			Open: openRedsync,
		})
	}
	floor := func(name, how string, publish bool, only ...string) {
		register(Library{
			Name: name, Family: "redis", Kind: Floor, Module: "github.com/redis/go-redis/v9", Only: only, Waits: publish, Nothing: name == "PING twice",
			How: how, Renewal: Never, Open: func(ctx context.Context, c Config) (Locker, error) { return openBareRedis(ctx, c, name) },
		})
	}
	floor("SET NX, EVALSHA", "SET NX PX, and EVALSHA of a compare-and-delete", false)
	floor("PING twice", "two round trips that do nothing", false, "cycle")
	// The least that tells a waiter in another process of a release, and has it take the name. It serves one waiter.
	floor(published, "DEL and PUBLISH in one pipeline; who has subscribed before sends SET NX", true, "handoff-other")
}

const published = "PUBLISH, SET NX"

// poolSize is that of every go-redis client but lockport's own: with go-redis' own setting, ten for each core, goroutines would wait for connections,
// and some of them in vain.
const poolSize = 64

// goRedis are clients of the servers that a URL names: one, or those of redlock://host,host. end closes them.
func goRedis(rawURL string) (clients []*goredis.Client, end func() error, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, err
	}
	for _, host := range strings.Split(u.Host, ",") {
		one := *u
		one.Scheme, one.Host = "redis", host
		o, err := goredis.ParseURL(one.String())
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", one.Redacted(), err)
		}
		o.PoolSize = poolSize
		clients = append(clients, goredis.NewClient(o))
	}
	return clients, func() (err error) {
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
		return err
	}, nil
}

func openRedislock(_ context.Context, c Config) (Locker, error) {
	nodes, end, err := goRedis(c.URL)
	if err != nil {
		return nil, err
	}
	client := redislock.New(nodes[0])
	return takes{func(ctx context.Context, name string, wait bool) (release, error) {
		retry := redislock.NoRetry()
		if wait {
			retry = redislock.LinearBackoff(100 * time.Millisecond)
		}
		l, err := client.Obtain(ctx, name, c.TTL, &redislock.Options{RetryStrategy: retry})
		if errors.Is(err, redislock.ErrNotObtained) {
			return nil, ErrHeld
		}
		if err != nil {
			return nil, err
		}
		return loop(c, l.Release, func(ctx context.Context) error { return l.Refresh(ctx, c.TTL, nil) }), nil
	}, end}, nil
}

func openRedsync(_ context.Context, c Config) (Locker, error) {
	nodes, end, err := goRedis(c.URL)
	if err != nil {
		return nil, err
	}
	var pools []redis.Pool
	for _, n := range nodes {
		pools = append(pools, pool.NewPool(n))
	}
	rs := redsync.New(pools...)
	return takes{func(ctx context.Context, name string, wait bool) (release, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(c.TTL), redsync.WithTries(math.MaxInt))
		lock := m.TryLockContext
		if wait {
			lock = m.LockContext
		}
		err := lock(ctx)
		var taken *redsync.ErrTaken
		if !wait && (errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed)) {
			return nil, ErrHeld
		}
		if err != nil {
			return nil, err
		}
		unlock := func(ctx context.Context) error { return unlessHeld(m.UnlockContext(ctx)) }
		return loop(c, unlock, func(ctx context.Context) error { return unlessHeld(m.ExtendContext(ctx)) }), nil
	}, end}, nil
}

// bareValue is what keys have: a real lock would draw one, which costs the client alone.
const bareValue = "0123456789abcdef0123456789abcdef"

var compareAndDelete = goredis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

// openBareRedis opens one of the floors.
func openBareRedis(ctx context.Context, c Config, floor string) (Locker, error) {
	nodes, end, err := goRedis(c.URL)
	if err != nil {
		return nil, err
	}
	client := nodes[0]
	if floor == "PING twice" {
		ping := func(ctx context.Context) error { return client.Ping(ctx).Err() }
		return takes{func(ctx context.Context, _ string, _ bool) (release, error) { return ping, ping(ctx) }, end}, nil
	}
	try := func(ctx context.Context, name string) (release, error) {
		err := client.SetArgs(ctx, name, bareValue, goredis.SetArgs{Mode: "NX", TTL: c.TTL}).Err()
		if errors.Is(err, goredis.Nil) {
			return nil, ErrHeld
		}
		return func(ctx context.Context) error {
			if floor == published {
				_, err := client.Pipelined(ctx, func(p goredis.Pipeliner) error {
					p.Del(ctx, name)
					p.Publish(ctx, "released:"+name, "")
					return nil
				})
				return err
			}
			n, err := compareAndDelete.EvalSha(ctx, client, []string{name}, bareValue).Int()
			return unlessHeld(n == 1, err)
		}, err
	}
	take := func(ctx context.Context, name string, wait bool) (release, error) {
		r, err := try(ctx, name)
		if !wait || floor != published || !errors.Is(err, ErrHeld) {
			return r, err
		}
		told := client.Subscribe(ctx, "released:"+name)
		defer func() { _ = told.Close() }()
		if _, err := told.Receive(ctx); err != nil { // that it is subscribed
			return nil, err
		}
		return untilTaken(func() (release, error) { return try(ctx, name) }, func() error { _, err := told.ReceiveMessage(ctx); return err })
	}
	return takes{take, end}, compareAndDelete.Load(ctx, client).Err()
}
