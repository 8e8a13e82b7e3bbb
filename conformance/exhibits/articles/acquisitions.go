package articles

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// acquisitions are locks that claim in a wrong way.
var acquisitions = []Exhibit{
	{
		Name: "setnx-then-expire", Hazard: "H1", Article: "000, 001, 003, 004",
		Is:       "SETNX, then EXPIRE in a second request: who dies between the two leaves a lock that never ends",
		CaughtBy: []string{"unknown/cut-after-each-request-orphan"}, Sees: []string{"a claim was cut off after request"},
		one: taking(func(l *lock, ctx context.Context, c claim) (bool, error) {
			got, err := l.rdb.SetNX(ctx, c.key, c.value, 0).Result()
			if err != nil || !got {
				return false, err
			}
			return got, l.rdb.PExpire(ctx, c.key, c.ttl).Err()
		}),
	},
	{
		Name: "expire-after-failed-setnx", Hazard: "H2", Article: "001",
		Is:       "SETNX, and EXPIRE whatever it said: who waits prolongs the holder's lock, so that it never ends",
		CaughtBy: []string{"exclusion/a-claim-that-failed"}, Sees: []string{"still taken, by nobody but the failed claims"},
		one: taking(func(l *lock, ctx context.Context, c claim) (got bool, _ error) {
			got, err := l.rdb.SetNX(ctx, c.key, c.value, 0).Result()
			if err != nil {
				return false, err
			}
			return got, l.rdb.PExpire(ctx, c.key, c.ttl).Err()
		}),
	},
	{
		Name: "setnx-without-expiry", Hazard: "H15", Article: "000, 001, 003, 004",
		Is:       "SETNX alone: the lock of a client that dies stays for ever",
		CaughtBy: []string{"crash/claim", "crash/holder", "silence/expiry"},
		Sees:     []string{"process was killed", "process was killed", "a claim that is not renewed ends with its TTL"},
		one: func(l *lock) driver.Backend {
			l.take = func(ctx context.Context, c claim) (bool, error) { return l.rdb.SetNX(ctx, c.key, c.value, 0).Result() }
			l.prolong = func(ctx context.Context, c claim) (bool, error) {
				value, err := l.rdb.Get(ctx, c.key).Result()
				return value == c.value, unlessNil(err)
			}
			return l
		},
	},
	{
		Name: "get-then-set", Hazard: "", Article: "001",
		Is:       "GET, and SET if there was nothing: who claims between the two has the lock too, until it is overwritten",
		CaughtBy: []string{"exclusion/many-at-once"}, Sees: []string{"of 12 claims at once"},
		one: taking(func(l *lock, ctx context.Context, c claim) (bool, error) {
			if err := l.rdb.Get(ctx, c.key).Err(); !errors.Is(err, goredis.Nil) {
				return false, err
			}
			return true, l.rdb.Set(ctx, c.key, c.value, c.ttl).Err()
		}),
	},
}

// taking makes a lock that claims by take.
func taking(take func(*lock, context.Context, claim) (bool, error)) func(*lock) driver.Backend {
	return func(l *lock) driver.Backend {
		l.take = func(ctx context.Context, c claim) (bool, error) { return take(l, ctx, c) }
		return l
	}
}

// unlessNil is err, and nil for that of a key that is not there.
func unlessNil(err error) error {
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	return err
}
