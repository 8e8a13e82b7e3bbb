package lib

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
)

func init() {
	register(Library{
		Name: "redislock", Family: "redis", Kind: Theirs, Module: "github.com/bsm/redislock",
		How:     "Obtain with LinearBackoff(100ms), which is the one of its examples, and Release",
		Renewal: LoopEach, Waits: true,
		MostWaiters: 1000, WhyMost: "it asks ten times a second for each waiter",
		Open: func(ctx context.Context, c Config) (Locker, error) {
			clients, err := goRedis(c.URL)
			if err != nil {
				return nil, err
			}
			return &bsm{Config: c, nodes: clients[0], client: redislock.New(clients[0])}, nil
		},
	})
}

type bsm struct {
	Config
	nodes  *goredis.Client
	client *redislock.Client
}

func (b *bsm) Acquire(ctx context.Context, name string) (Hold, error) {
	return b.obtain(ctx, name, redislock.LinearBackoff(100*time.Millisecond))
}

func (b *bsm) Try(ctx context.Context, name string) (Hold, error) {
	return b.obtain(ctx, name, redislock.NoRetry())
}

func (b *bsm) obtain(ctx context.Context, name string, retry redislock.RetryStrategy) (Hold, error) {
	l, err := b.client.Obtain(ctx, name, b.TTL, &redislock.Options{RetryStrategy: retry})
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, err
	}
	return loop(b.Config, l, func(ctx context.Context) error { return l.Refresh(ctx, b.TTL, nil) }), nil
}

func (b *bsm) Close() error { return b.nodes.Close() }
