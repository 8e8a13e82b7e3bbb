package lib

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/referee/libraries"
)

// poolSize is the pool size of every go-redis client except lockport's. With go-redis' default, ten for each core, goroutines would wait for
// connections, some until they time out.
const poolSize = 64

func goRedis(c measure.Config) libraries.Nodes { return libraries.GoRedis(c.URL, poolSize) }

func openPings(_ context.Context, c measure.Config) (measure.Locker, error) {
	all := goRedis(c)
	ping := func(ctx context.Context) error { return all[0].Ping(ctx).Err() }
	return measure.Locker{Close: all.Close, Acquire: func(ctx context.Context, _ string, _ bool) (measure.Release, error) { return ping, ping(ctx) }}, nil
}

// bareValue is the value of all keys. A real lock would draw a random one, which costs only the client.
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

// openPublished opens the minimal way to wake a waiter in another process, which then takes the name. It serves one waiter.
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
		subscription := all[0].Subscribe(ctx, "released:"+name)
		defer func() { _ = subscription.Close() }()
		if _, err := subscription.Receive(ctx); err != nil { // confirms the subscription
			return nil, err
		}
		return release, untilTaken(try, func() error { _, err := subscription.ReceiveMessage(ctx); return err })
	}}, nil
}
