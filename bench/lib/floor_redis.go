package lib

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"
)

func init() {
	const module = "github.com/redis/go-redis/v9"
	register(Library{
		Name: "SET NX, EVALSHA", Family: "redis", Kind: Floor, Module: module,
		How: "SET NX PX, and EVALSHA of a compare-and-delete", Renewal: Never,
		Open: func(ctx context.Context, c Config) (Locker, error) { return openBareRedis(ctx, c) },
	})
	register(Library{
		Name: "PING twice", Family: "redis", Kind: Floor, Module: module, Nothing: true, Only: []string{"cycle"},
		How: "two round trips that do nothing", Renewal: Never,
		Open: func(_ context.Context, c Config) (Locker, error) {
			clients, err := goRedis(c.URL)
			if err != nil {
				return nil, err
			}
			return pings{clients[0]}, nil
		},
	})
}

// bareValue is what keys have: a real lock would draw one, which costs the client alone.
const bareValue = "0123456789abcdef0123456789abcdef"

var compareAndDelete = goredis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

type bareRedis struct {
	Config
	*goredis.Client
}

func openBareRedis(ctx context.Context, c Config) (*bareRedis, error) {
	clients, err := goRedis(c.URL)
	if err != nil {
		return nil, err
	}
	return &bareRedis{c, clients[0]}, compareAndDelete.Load(ctx, clients[0]).Err()
}

// Acquire does not wait: nothing tells when to try again.
func (b *bareRedis) Acquire(ctx context.Context, name string) (Hold, error) { return b.Try(ctx, name) }

func (b *bareRedis) Try(ctx context.Context, name string) (Hold, error) {
	err := b.SetArgs(ctx, name, bareValue, goredis.SetArgs{Mode: "NX", TTL: b.TTL}).Err()
	if errors.Is(err, goredis.Nil) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, err
	}
	return bareKey{b, name}, nil
}

type bareKey struct {
	*bareRedis
	name string
}

func (k bareKey) Release(ctx context.Context) error {
	n, err := compareAndDelete.EvalSha(ctx, k.Client, []string{k.name}, bareValue).Int()
	if err == nil && n != 1 {
		err = errors.New("it was not held")
	}
	return err
}

type pings struct{ *goredis.Client }

func (p pings) Acquire(ctx context.Context, name string) (Hold, error) { return p.Try(ctx, name) }

func (p pings) Try(ctx context.Context, _ string) (Hold, error) { return p, p.Ping(ctx).Err() }

func (p pings) Release(ctx context.Context) error { return p.Ping(ctx).Err() }
