package articles

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// The steps of a sound lock in one Redis. Each compares and acts atomically.
var (
	// Abandon may overtake the claim that it undoes, so the claim checks for it first.
	takeScript = goredis.NewScript(`
if redis.call('exists', KEYS[2]) == 1 then return 0 end
if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 1 end
return 0`)
	renewScript = goredis.NewScript(`
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`)
	releaseScript = goredis.NewScript(`
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`)
)

// goneTime is how long Redis remembers an Abandon: longer than any request is under way.
const goneTime = time.Minute

// onRedis returns a lock in one Redis: a key that exists while a claim holds the name.
func onRedis(rdb *goredis.Client, name string) *lock {
	gone := func(c claim) string { return "gone:" + c.owner }
	l := &lock{
		rdb: rdb,
		caps: driver.Capabilities{
			Backend: name, Ends: driver.EndsTTL, MinTTL: time.Millisecond, TTLGrain: time.Millisecond, Wake: driver.WakePoll,
			RemovalNotice: func(ttl time.Duration) time.Duration { return ttl / 3 },
		},
		value: func(owner string) string { return owner },
		take: func(ctx context.Context, c claim) (bool, error) {
			return takeScript.Eval(ctx, rdb, []string{c.key, gone(c)}, c.value, c.ttl.Milliseconds()).Bool()
		},
		renew: func(ctx context.Context, c claim) (bool, error) {
			return renewScript.Eval(ctx, rdb, []string{c.key}, c.value, c.ttl.Milliseconds()).Bool()
		},
		release: func(ctx context.Context, c claim) (bool, error) {
			return releaseScript.Eval(ctx, rdb, []string{c.key}, c.value).Bool()
		},
		valid: func(sent time.Time, ttl time.Duration) (time.Time, bool) { return sent.Add(ttl), true },
		close: rdb.Close,
	}
	l.undo = func(ctx context.Context, c claim) (bool, error) {
		if err := rdb.Set(ctx, gone(c), 1, goneTime).Err(); err != nil {
			return false, err
		}
		_, err := l.release(ctx, c)
		return err == nil, err
	}
	return l
}

// inMajority returns a lock in several servers, asked in turn. A claim holds it if it holds a majority.
func inMajority(nodes []*lock) *lock {
	l := *nodes[0]
	l.valid = fromTheFirst
	l.patience = func(ttl time.Duration) time.Duration { return ttl / 16 }
	ask := func(of func(*lock) step) step {
		return func(ctx context.Context, c claim) (bool, error) {
			var yes, no int
			var failures error
			for _, node := range nodes {
				short, cancel := context.WithTimeout(ctx, l.patience(c.ttl))
				said, err := of(node)(short, c)
				cancel()
				switch {
				case err != nil:
					failures = errors.Join(failures, err)
				case said:
					yes++
				default:
					no++
				}
			}
			if most := len(nodes)/2 + 1; yes >= most || no >= most {
				return yes >= most, nil
			}
			return false, errors.Join(fmt.Errorf("%d of %d servers said yes and %d no", yes, len(nodes), no), failures)
		}
	}
	take := ask(func(node *lock) step { return node.take })
	l.renew = ask(func(node *lock) step { return node.renew })
	l.release = ask(func(node *lock) step { return node.release })
	l.undo = ask(func(node *lock) step { return node.undo })
	l.take = func(ctx context.Context, c claim) (bool, error) {
		got, err := take(ctx, c)
		if !got {
			_, _ = l.release(ctx, c) // on all nodes: one may have granted without a reply
		}
		return got, err
	}
	l.close = func() (err error) {
		for _, node := range nodes {
			err = errors.Join(err, node.close())
		}
		return err
	}
	return &l
}

// fromTheFirst counts the validity from the first request, with an allowance for clock drift.
func fromTheFirst(sent time.Time, ttl time.Duration) (time.Time, bool) {
	until := sent.Add(ttl - ttl/100 - 2*time.Millisecond)
	return until, time.Now().Before(until)
}
