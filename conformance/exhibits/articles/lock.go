package articles

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
)

// step is one operation on a claim. It reports whether the claim holds the lock, or held it until the operation.
type step func(ctx context.Context, c claim) (bool, error)

// lock is a lock in steps. It is sound until an exhibit replaces a step.
type lock struct {
	rdb  *goredis.Client // with one Redis
	caps driver.Capabilities

	value    func(owner string) string // the holder as the server stores it
	take     step                      // claims
	renew    step                      // renews
	release  step                      // releases
	undo     step                      // releases a claim that may not have arrived yet
	valid    validity
	patience func(ttl time.Duration) time.Duration // timeout for one of several servers
	pause    time.Duration                         // between the attempts of a waiter that polls by itself
	close    func() error
}

// validity returns until when a claim sent at sent is valid, and whether any of that is left.
type validity func(sent time.Time, ttl time.Duration) (until time.Time, left bool)

// claim is a claim as Redis sees it.
type claim struct {
	key, value, owner string
	ttl               time.Duration
}

func (l *lock) claim(c library.Claim) claim {
	ttl := (c.TTL + time.Millisecond - 1).Truncate(time.Millisecond)
	return claim{key: "lock:" + c.Name, value: l.value(c.Owner), owner: c.Owner, ttl: ttl}
}

// driver makes a driver of the steps.
func (l *lock) driver() driver.Backend {
	undo := func(ctx context.Context, c library.Claim) error {
		_, err := l.undo(ctx, l.claim(c))
		return err
	}
	return library.Driver(l.caps, library.Client{Take: l.hold, Undo: undo, Close: l.close})
}

var errTooLate = errors.New("the reply came too late: none of its validity is left")

// hold claims a name.
func (l *lock) hold(ctx context.Context, of library.Claim) (*library.Hold, error) {
	c, sent := l.claim(of), time.Now()
	got, err := l.take(ctx, c)
	for of.Wait && !got && err == nil {
		time.Sleep(l.pause)
		sent = time.Now()
		got, err = l.take(ctx, c)
	}
	until, left := l.valid(sent, of.TTL)
	switch {
	case err != nil:
		return nil, err
	case !got:
		return nil, driver.ErrHeld
	case !left:
		_, _ = l.release(ctx, c)
		return nil, errTooLate
	}
	released := false
	return &library.Hold{
		Until: until,
		Renew: func(ctx context.Context) (time.Time, error) {
			sent := time.Now()
			ours, err := l.renew(ctx, c)
			until, left := l.valid(sent, c.ttl)
			if ours && err == nil && !left {
				err = errTooLate
			}
			return until, library.LostIf(!ours && err == nil, err)
		},
		// It asks the server at every call, like a program that releases twice.
		Release: func(ctx context.Context) error {
			ours, err := l.release(ctx, c)
			released = released || ours
			return library.LostIf(!released && err == nil, err)
		},
	}, nil
}

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
	l.patience = func(ttl time.Duration) time.Duration { return min(ttl/16, 400*time.Millisecond) }
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
