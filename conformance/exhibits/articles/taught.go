package articles

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// What the suite says when a late release succeeds, or ends another holder's claim.
const (
	notLost         = "of the expired claim was not ErrLost but: no error"
	releasedAnother = "holder has not released the name, yet" // another claim was granted, or a renewal failed, whichever came first
)

var sound = []Exhibit{
	{
		Name: "set-nx-px", Article: "000, 002, 003",
		Is: "value and expiry in one step; renewal, release and Abandon compare the value in the same step",
	},
	{
		Name: "watch-multi", Article: "001",
		Is: "the same, with a release that is WATCH, GET, MULTI, DEL, EXEC: the transaction fails if the lock has changed since WATCH",
		spoil: releasing(func(ctx context.Context, rdb *goredis.Client, c claim) (ours bool, _ error) {
			err := rdb.Watch(ctx, func(tx *goredis.Tx) error {
				value, err := tx.Get(ctx, c.key).Result()
				if err != nil || value != c.value {
					return unlessNil(err)
				}
				_, err = tx.TxPipelined(ctx, func(p goredis.Pipeliner) error { return p.Del(ctx, c.key).Err() })
				ours = err == nil
				return err
			}, c.key)
			if errors.Is(err, goredis.TxFailedErr) {
				return false, nil
			}
			return ours, err
		}),
	},
	{
		Name: "redlock", Article: "002, 004", Nodes: 5,
		Is: "a majority of five servers, each of which has a sixteenth of the TTL, at most 0.4 s, to answer; the validity counts from the first request",
	},
}

var taught = []Exhibit{
	// Faulty claims.
	{
		Name: "setnx-then-expire", Hazard: "H1", Article: "000, 001, 003, 004",
		Is:       "SETNX, then EXPIRE in a second request: a client that dies in between leaves a lock that never ends",
		CaughtBy: caught{"unknown/cut-after-each-request-orphan": "a claim was cut off after request"},
		spoil: taking(func(ctx context.Context, rdb *goredis.Client, c claim) (bool, error) {
			got, err := rdb.SetNX(ctx, c.key, c.value, 0).Result()
			if err != nil || !got {
				return false, err
			}
			return true, rdb.PExpire(ctx, c.key, c.ttl).Err()
		}),
	},
	{
		Name: "expire-after-failed-setnx", Hazard: "H2", Article: "001",
		Is:       "SETNX, then EXPIRE regardless of its answer: waiters extend the holder's lock for ever",
		CaughtBy: caught{"exclusion/a-claim-that-failed": "still taken: nobody but the failed claims"},
		spoil: taking(func(ctx context.Context, rdb *goredis.Client, c claim) (bool, error) {
			got, err := rdb.SetNX(ctx, c.key, c.value, 0).Result()
			if err != nil {
				return false, err
			}
			return got, rdb.PExpire(ctx, c.key, c.ttl).Err()
		}),
	},
	{
		Name: "setnx-without-expiry", Hazard: "H15", Article: "000, 001, 003, 004",
		Is: "SETNX alone: a dead client's lock stays for ever",
		CaughtBy: caught{"crash/claim": "process was killed", "crash/holder": "process was killed",
			"silence/expiry": "a claim that is not renewed ends with its TTL"},
		spoil: func(l *lock) {
			l.renew = func(ctx context.Context, c claim) (bool, error) {
				value, err := l.rdb.Get(ctx, c.key).Result()
				return value == c.value, unlessNil(err)
			}
			l.take = func(ctx context.Context, c claim) (bool, error) {
				return l.rdb.SetNX(ctx, c.key, c.value, 0).Result()
			}
		},
	},
	// Faulty releases.
	{
		Name: "plain-del", Hazard: "H3", Article: "000, 003, 004",
		Is: "DEL: a late or repeated release ends the next holder's lock",
		CaughtBy: caught{"ownership/late-release": notLost, "ownership/late-abandon": releasedAnother, "ownership/abandon-twice": releasedAnother,
			"ownership/abandon-twice-same-client": releasedAnother, "ownership/abandon-of-others": releasedAnother},
		spoil: releasing(func(ctx context.Context, rdb *goredis.Client, c claim) (bool, error) {
			return true, rdb.Del(ctx, c.key).Err()
		}),
	},
	{
		Name: "get-then-del", Hazard: "H4", Article: "003",
		Is:       "GET, then DEL if the value matches: if the lock expires in between, DEL deletes the next holder's",
		CaughtBy: caught{"ownership/slow-release": releasedAnother},
		spoil: releasing(func(ctx context.Context, rdb *goredis.Client, c claim) (bool, error) {
			value, err := rdb.Get(ctx, c.key).Result()
			if err != nil || value != c.value {
				return false, unlessNil(err)
			}
			return true, rdb.Del(ctx, c.key).Err()
		}),
	},
	// Faulty owners.
	{
		Name: "four-digit-owner", Hazard: "H5", Article: "003, 004",
		Is:       "owners are one of 9,001 numbers, and forked workers draw the same ones: a late release ends another worker's lock",
		CaughtBy: caught{"ownership/late-release": notLost, "ownership/late-abandon": releasedAnother, "ownership/late-renewal": notLost},
		spoil:    func(l *lock) { l.value = drawn() },
	},
	// Faulty validity.
	{
		Name: "nobody-tells-the-holder", Hazard: "H6", Article: "000, 001, 003, 004",
		Is: "the lock expires without renewal, and its holder, which knows no deadline, never notices",
		CaughtBy: caught{"silence/renewal": "the holder has not released the name, yet another claim was granted",
			"silence/frozen": "granted the name to another", "silence/gone": "granted the name to another",
			"crash/stopped-holder": "its first Valid said true"},
		spoil: trusting(func(time.Time, time.Duration) (time.Time, bool) { return time.Time{}, true }),
	},
	{
		Name: "believes-from-the-last-answer", Hazard: "H10", Article: "002, 004", Nodes: 5,
		Is:       "five servers are asked in turn, with a timeout above the TTL, and validity counts from the last answer: when one hangs, the lock expires on the others",
		CaughtBy: caught{"exclusion/two-backends": "yet another claim was granted", "contract/held": "a second claim was not ErrHeld but: no error"},
		spoil:    trusting(func(_ time.Time, ttl time.Duration) (time.Time, bool) { return time.Now().Add(ttl), true }),
	},
	{
		Name: "never-looks-at-what-is-left", Hazard: "H10", Article: "004", Nodes: 5,
		Is:       "the same with validity counted from the first request, but nobody checks that any is left",
		CaughtBy: caught{"contract/grant": "before TryAcquire returned"},
		spoil:    trusting(func(sent time.Time, ttl time.Duration) (time.Time, bool) { return sent.Add(ttl), true }),
	},
	// Waiters that poll too often.
	{
		Name: "asks-every-five-milliseconds", Hazard: "H11", Article: "001, 004",
		Is:       "a waiter asks again after five milliseconds",
		CaughtBy: caught{"cost/waiters": "one waiter cost"},
		spoil:    func(l *lock) { l.caps.Wake, l.pause = driver.WakeQueue, 5*time.Millisecond },
	},
	// Faulty handling of an unreachable server.
	{
		Name: "waits-for-a-silent-server", Hazard: "H12", Article: "001",
		Is:       "the client has no timeouts: on a silent server a claim hangs past its caller's deadline",
		CaughtBy: caught{"cancellation/silent-server": "TryAcquire has not returned"},
		client:   func(o *goredis.Options) { o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = -1, -1, false },
	},
	{
		Name: "release-swallows-errors", Hazard: "H12", Article: "001",
		Is: "errors of the release are swallowed: the lock stays until it expires",
		CaughtBy: caught{"giving-up/server-gone": "Release returned nil, and the name is still taken",
			"giving-up/silent-server": "Release returned nil, and the name is still taken"},
		// Its timeout ends well before its caller's, so that the caller sees its wrong result.
		client: func(o *goredis.Options) { o.ReadTimeout = time.Second },
		spoil: releasing(func(ctx context.Context, rdb *goredis.Client, c claim) (bool, error) {
			ours, err := releaseScript.Eval(ctx, rdb, []string{c.key}, c.value).Bool()
			return ours || err != nil, nil
		}),
	},
	{
		Name: "takes-an-error-for-held", Hazard: "H12", Article: "003, 004",
		Is:       "every failed claim counts as held: nobody learns that the server is unreachable",
		CaughtBy: caught{"unknown/server-gone": "lock is held", "giving-up/server-gone": "lock is held"},
		spoil: func(l *lock) {
			take := l.take
			l.take = func(ctx context.Context, c claim) (bool, error) {
				got, err := take(ctx, c)
				return got && err == nil, nil
			}
		},
	},
	// Faulty clean-up.
	{
		Name: "cleans-up-on-the-callers-context", Article: "[blnk](https://github.com/blnkfinance/blnk/issues/354)",
		Is:       "the key is deleted on the context of the request that took it, and stays if that has ended",
		CaughtBy: caught{"cancellation/after-each-request": "must be granted"},
		spoil: func(l *lock) {
			take := l.take
			l.take = func(ctx context.Context, c claim) (bool, error) {
				got, err := take(context.WithoutCancel(ctx), c)
				if got && ctx.Err() != nil {
					_, _ = l.release(ctx, c)
					return false, fmt.Errorf("%w: %w", driver.ErrUnavailable, ctx.Err())
				}
				return got, err
			}
		},
	},
}

// taking replaces how a lock in one Redis claims.
func taking(take func(context.Context, *goredis.Client, claim) (bool, error)) func(*lock) {
	return func(l *lock) {
		l.take = func(ctx context.Context, c claim) (bool, error) { return take(ctx, l.rdb, c) }
	}
}

// releasing replaces how a lock in one Redis releases.
func releasing(release func(context.Context, *goredis.Client, claim) (bool, error)) func(*lock) {
	return func(l *lock) {
		l.release = func(ctx context.Context, c claim) (bool, error) { return release(ctx, l.rdb, c) }
	}
}

// trusting replaces the validity. The timeout for each of several servers exceeds the TTL, as by default in many clients.
func trusting(valid validity) func(*lock) {
	return func(l *lock) {
		l.valid = valid
		l.patience = func(ttl time.Duration) time.Duration { return ttl + ttl/20 }
	}
}

// drawn maps each owner to a pseudo-random number from 1000 to 10000. Each lock draws the same sequence.
func drawn() func(owner string) string {
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(1, 2))
	numbers := make(map[string]string)
	return func(owner string) string {
		mu.Lock()
		defer mu.Unlock()
		if numbers[owner] == "" {
			numbers[owner] = strconv.Itoa(1000 + dice.IntN(9001))
		}
		return numbers[owner]
	}
}

// unlessNil returns err, or nil if it is redis.Nil: no such key.
func unlessNil(err error) error {
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	return err
}
