package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

var redislockSubject = Subject{
	Name: "redislock", Module: "github.com/bsm/redislock", Environment: "redis",
	Use: "Obtain without retries, Refresh at a third of the TTL, Release; a go-redis client with its own settings, as in the README",
	Promises: map[string]string{
		"P1": "README: \"Simplified distributed locking implementation using Redis\"; Obtain: \"tries to obtain a new lock using a key with the given TTL\"",
		"P4": "ErrLockNotHeld: \"is returned when trying to release an inactive lock\"",
		"P5": "Obtain: \"a key with the given TTL\"",
		"P9": "Obtain takes the key as it is",
	},
	Explained: map[string]string{"giving-up/release-reply-lost": hiddenRetry},
	Open:      openRedislock, Remove: removeKey(""),
	// Each of its scripts has another number of arguments.
	IsOp: redisWords(map[conformance.Op][]string{
		conformance.OpAcquire: {"*7\r\n$7\r\nevalsha", "*7\r\n$4\r\neval"}, conformance.OpRenew: {"*6\r\n$7\r\nevalsha", "*6\r\n$4\r\neval"},
		conformance.OpRelease: {"*5\r\n$7\r\nevalsha", "*5\r\n$4\r\neval"},
	}),
}

const hiddenRetry = "go-redis sends a command whose connection broke again (options.go: MaxRetries, default 3). The first EVALSHA deleted the key, the second finds none, " +
	"and the caller is told that the lock was not held"

func openRedislock(_ context.Context, rawURL string) (driver.Backend, error) {
	client, err := goRedis(rawURL)
	if err != nil {
		return nil, err
	}
	locks := redislock.New(client[0])
	return &thin{
		caps: driver.Capabilities{Backend: "redislock", Ends: driver.EndsTTL, MinTTL: time.Millisecond, TTLGrain: time.Millisecond},
		end:  client[0].Close,
		take: func(ctx context.Context, req driver.Request, _ bool) (*hold, error) {
			sent := time.Now()
			lock, err := locks.Obtain(ctx, req.Name, req.TTL, nil)
			if errors.Is(err, redislock.ErrNotObtained) {
				return nil, driver.ErrHeld
			}
			if err != nil {
				return nil, err
			}
			return &hold{
				until: sent.Add(req.TTL),
				renew: func(ctx context.Context) (time.Time, error) {
					sent := time.Now()
					err := lock.Refresh(ctx, req.TTL, nil)
					return sent.Add(req.TTL), lostIf(errors.Is(err, redislock.ErrNotObtained), err)
				},
				release: func(ctx context.Context) error {
					err := lock.Release(ctx)
					return lostIf(errors.Is(err, redislock.ErrLockNotHeld), err)
				},
			}, nil
		},
	}, nil
}

// goRedis are clients of the servers of redis://host or redlock://host,host with go-redis' own settings.
func goRedis(rawURL string) (all []*redis.Client, err error) {
	servers, err := hosts(rawURL)
	if err != nil {
		return nil, err
	}
	for _, host := range servers {
		all = append(all, redis.NewClient(&redis.Options{Addr: host}))
	}
	return all, nil
}

// removeKey deletes the key of a name, which has a prefix, on every server.
func removeKey(prefix string) func(ctx context.Context, rawURL, name string) error {
	return func(ctx context.Context, rawURL, name string) error {
		clients, err := goRedis(rawURL)
		for _, c := range clients {
			err = errors.Join(err, c.Del(ctx, prefix+name).Err(), c.Close())
		}
		return err
	}
}

// redisWords tells requests apart by one of the texts that each kind has, in lower case.
func redisWords(words map[conformance.Op][]string) func(conformance.Op, []byte) bool {
	return func(op conformance.Op, request []byte) bool {
		text := strings.ToLower(string(request))
		for _, w := range words[op] {
			if strings.Contains(text, w) {
				return true
			}
		}
		return op == conformance.OpAny
	}
}
