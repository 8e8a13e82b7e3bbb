package libraries

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
)

// Redislock is bsm's redislock on one server.
var Redislock = Subject{
	Name: "redislock", Library: "redislock", Module: "github.com/bsm/redislock", Environment: "redis",
	Use: "Obtain without retries, Refresh at a third of the TTL, Release; a go-redis client with its own settings, as in the README",
	Promises: map[string]string{
		"P1": "README: \"Simplified distributed locking implementation using Redis\"; Obtain: \"tries to obtain a new lock using a key with the given TTL\"",
		"P4": "ErrLockNotHeld: \"is returned when trying to release an inactive lock\"",
		"P5": "Obtain: \"a key with the given TTL\"",
		"P9": "Obtain takes the key as it is",
	},
	Explained: map[string]string{"giving-up/release-reply-lost": "redislock-release, below"},
	Caps:      driver.Capabilities{Ends: driver.EndsTTL, MinTTL: time.Millisecond, TTLGrain: time.Millisecond},
	Open:      openRedislock,
	// The scripts differ in their numbers of arguments.
	IsOp: redisWords(map[conformance.Op]string{conformance.OpAcquire: `\*7` + script, conformance.OpRenew: `\*6` + script, conformance.OpRelease: `\*5` + script}),
}

func openRedislock(_ context.Context, rawURL string, _ time.Duration) (library.Client, error) {
	all := GoRedis(rawURL)
	locks := redislock.New(all[0])
	return library.Client{Close: all.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		options := Either(c.Wait, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}, nil) // as in its examples
		sent := time.Now()
		lock, err := locks.Obtain(ctx, c.Name, c.TTL, options)
		if err != nil {
			return nil, HeldIf(errors.Is(err, redislock.ErrNotObtained), err)
		}
		return &library.Hold{
			Until: sent.Add(c.TTL),
			Renew: func(ctx context.Context) (time.Time, error) {
				sent := time.Now()
				err := lock.Refresh(ctx, c.TTL, nil)
				return sent.Add(c.TTL), library.LostIf(errors.Is(err, redislock.ErrNotObtained), err)
			},
			Release: func(ctx context.Context) error {
				err := lock.Release(ctx)
				return library.LostIf(errors.Is(err, redislock.ErrLockNotHeld), err)
			},
		}, nil
	}}, nil
}

// Nodes are clients of a URL's servers.
type Nodes []*redis.Client

// PoolSize is the pool size of the clients that GoRedis makes. 0 is go-redis' default, ten for each core.
var PoolSize int

// GoRedis makes clients of the servers of redis://host or redlock://host,host.
func GoRedis(rawURL string) (all Nodes) {
	for _, host := range hosts(rawURL) {
		all = append(all, redis.NewClient(&redis.Options{Addr: host, PoolSize: PoolSize}))
	}
	return all
}

// Close closes all of them.
func (all Nodes) Close() (err error) {
	for _, c := range all {
		err = errors.Join(err, c.Close())
	}
	return err
}

// script is what follows the number of words in a request that runs a script.
const script = `\r\n\$[47]\r\neval`

// redisWords recognizes requests by a regular expression for each kind.
func redisWords(words map[conformance.Op]string) func(conformance.Op, []byte) bool {
	return func(op conformance.Op, request []byte) bool {
		is, known := words[op]
		return known && regexp.MustCompile("(?i)"+is).Match(request)
	}
}
