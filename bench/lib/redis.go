package lib

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/referee/libraries"
)

func openPings(_ context.Context, rawURL string, _ time.Duration) (library.Client, error) {
	all := libraries.GoRedis(rawURL)
	ping := func(ctx context.Context) error { return all[0].Ping(ctx).Err() }
	return library.Client{Close: all.Close, Take: func(ctx context.Context, _ library.Claim) (*library.Hold, error) { return held(ping, ping(ctx)) }}, nil
}

// bareValue is the value of all keys. A real lock would draw a random one, which costs only the client.
const bareValue = "0123456789abcdef0123456789abcdef"

// setNX is the bare claim.
func setNX(ctx context.Context, client *goredis.Client, c library.Claim) error {
	err := client.SetArgs(ctx, c.Name, bareValue, goredis.SetArgs{Mode: "NX", TTL: c.TTL}).Err()
	return libraries.HeldIf(errors.Is(err, goredis.Nil), err)
}

func openBareRedis(ctx context.Context, rawURL string, _ time.Duration) (library.Client, error) {
	all := libraries.GoRedis(rawURL)
	release := goredis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	return library.Client{Close: all.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		return held(func(ctx context.Context) error {
			n, err := release.EvalSha(ctx, all[0], []string{c.Name}, bareValue).Int()
			return library.LostIf(err == nil && n == 0, err)
		}, setNX(ctx, all[0], c))
	}}, release.Load(ctx, all[0]).Err()
}

// openPublished opens the minimal way to wake a waiter in another process, which then takes the name. It serves one waiter.
func openPublished(_ context.Context, rawURL string, _ time.Duration) (library.Client, error) {
	all := libraries.GoRedis(rawURL)
	return library.Client{Close: all.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		release := func(ctx context.Context) error {
			_, err := all[0].Pipelined(ctx, func(p goredis.Pipeliner) error {
				p.Del(ctx, c.Name)
				return p.Publish(ctx, "released:"+c.Name, "").Err()
			})
			return err
		}
		try := func() error { return setNX(ctx, all[0], c) }
		if err := try(); !c.Wait || !errors.Is(err, driver.ErrHeld) {
			return held(release, err)
		}
		subscription := all[0].Subscribe(ctx, "released:"+c.Name)
		defer func() { _ = subscription.Close() }()
		if _, err := subscription.Receive(ctx); err != nil { // confirms the subscription
			return nil, err
		}
		return held(release, claimed(true, try, func() error { _, err := subscription.ReceiveMessage(ctx); return err }))
	}}, nil
}
