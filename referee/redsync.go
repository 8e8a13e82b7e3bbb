package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// redsyncOn is redsync on one server, as in its README, and on five, as the algorithm has it.
func redsyncOn(name, environment, servers string) Subject {
	return Subject{
		Name: name, Module: "github.com/go-redsync/redsync/v4", Environment: environment,
		Use: "TryLockContext, ExtendContext, UnlockContext with its own settings on " + servers,
		Promises: map[string]string{
			"P1":  "README: \"a Redis-based distributed mutual exclusion lock implementation\"",
			"P3a": "Until: \"returns the time of validity of acquired lock\"",
			"P4":  "Unlock: \"unlocks m and returns the status of unlock\"",
			"P5":  "WithExpiry: \"can be used to set the expiry of a mutex to the given value\"",
			"P9":  "NewMutex takes the name as the key",
		},
		Explained: map[string]string{"giving-up/release-reply-lost": hiddenRetry},
		Open:      openRedsync, Remove: removeKey(""),
		IsOp: redisWords(map[conformance.Op][]string{
			conformance.OpAcquire: {"\r\nnx\r\n"}, conformance.OpRenew: {"*6\r\n$7\r\nevalsha", "*6\r\n$4\r\neval"},
			conformance.OpRelease: {"*5\r\n$7\r\nevalsha", "*5\r\n$4\r\neval"},
		}),
	}
}

func openRedsync(_ context.Context, rawURL string) (driver.Backend, error) {
	clients, err := goRedis(rawURL)
	if err != nil {
		return nil, err
	}
	var pools []redis.Pool
	for _, c := range clients {
		pools = append(pools, goredis.NewPool(c))
	}
	rs := redsync.New(pools...)
	return &thin{
		caps: driver.Capabilities{Backend: "redsync", Ends: driver.EndsTTL, MinTTL: time.Millisecond, TTLGrain: time.Millisecond},
		end: func() (err error) {
			for _, c := range clients {
				err = errors.Join(err, c.Close())
			}
			return err
		},
		take: func(ctx context.Context, req driver.Request, _ bool) (*hold, error) {
			m := rs.NewMutex(req.Name, redsync.WithExpiry(req.TTL))
			err := m.TryLockContext(ctx)
			if taken := new(redsync.ErrTaken); errors.As(err, &taken) {
				return nil, driver.ErrHeld
			}
			if err != nil {
				return nil, err
			}
			return &hold{
				until: m.Until(),
				renew: func(ctx context.Context) (time.Time, error) {
					ok, err := m.ExtendContext(ctx)
					return m.Until(), redsyncLost(ok, err)
				},
				release: func(ctx context.Context) error { return redsyncLost(m.UnlockContext(ctx)) },
			}, nil
		},
	}, nil
}

// redsyncLost is ErrLost where most servers say that they do not have the lock.
func redsyncLost(ok bool, err error) error {
	taken := new(redsync.ErrTaken)
	lost := errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired)
	if !ok && err == nil {
		err, lost = errors.New("redsync: false"), true
	}
	if ok {
		return nil
	}
	return lostIf(lost, err)
}
