package articles

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// lock is a lock in one Redis: a key that is there while somebody has the name. As newLock makes it, it is sound; each exhibit takes
// one of its steps another way.
type lock struct {
	rdb  *goredis.Client
	caps driver.Capabilities

	value   func(owner string) string                               // what the key says of its holder
	take    func(ctx context.Context, c claim) (got bool, _ error)  // claims
	prolong func(ctx context.Context, c claim) (ours bool, _ error) // renews
	give    func(ctx context.Context, c claim) (ours bool, _ error) // releases
	until   func(sent time.Time, ttl time.Duration) time.Time       // how long a claim is believed, that was sent then
}

// claim is one claim as the server sees it.
type claim struct {
	key, value, owner string
	ttl               time.Duration
}

// The steps of a sound lock, each of which compares and acts at once.
var (
	// An Abandon may overtake the claim that it undoes, so the claim looks for it first.
	takeScript = goredis.NewScript(`
if redis.call('exists', KEYS[2]) == 1 then return 0 end
if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 1 end
return 0`)
	prolongScript = goredis.NewScript(`
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`)
	giveScript = goredis.NewScript(`
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`)
)

func newLock(rdb *goredis.Client, name string) *lock {
	l := &lock{rdb: rdb, value: func(owner string) string { return owner }, until: time.Time.Add}
	l.caps = driver.Capabilities{
		Backend: name, Ends: driver.EndsTTL, MinTTL: time.Millisecond, TTLGrain: time.Millisecond, Wake: driver.WakePoll,
		Poll: 100 * time.Millisecond, RemovalNotice: func(ttl time.Duration) time.Duration { return ttl / 3 },
	}
	l.take = func(ctx context.Context, c claim) (bool, error) {
		return takeScript.Eval(ctx, rdb, []string{c.key, goneKey(c.owner)}, c.value, c.ttl.Milliseconds()).Bool()
	}
	l.prolong = func(ctx context.Context, c claim) (bool, error) {
		return prolongScript.Eval(ctx, rdb, []string{c.key}, c.value, c.ttl.Milliseconds()).Bool()
	}
	l.give = func(ctx context.Context, c claim) (bool, error) {
		return giveScript.Eval(ctx, rdb, []string{c.key}, c.value).Bool()
	}
	return l
}

// goneTime is how long an Abandon is remembered: no request is under way for longer.
const goneTime = time.Minute

func lockKey(name string) string  { return "lock:" + name }
func goneKey(owner string) string { return "gone:" + owner }

func (l *lock) claim(req driver.Request) claim {
	ttl := (req.TTL + time.Millisecond - 1).Truncate(time.Millisecond)
	return claim{key: lockKey(req.Name), value: l.value(req.Owner), owner: req.Owner, ttl: ttl}
}

// TryAcquire implements driver.Backend.
func (l *lock) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	if req.TTL < l.caps.MinTTL {
		return nil, fmt.Errorf("%w: the TTL %v is too short", driver.ErrRefused, req.TTL)
	}
	c := l.claim(req)
	sent := time.Now()
	got, err := l.take(ctx, c)
	switch {
	case err != nil:
		return nil, unknown(ctx, err)
	case !got:
		return nil, &driver.HeldError{}
	}
	return &lease{l: l, claim: c, grant: driver.Grant{Until: l.until(sent, req.TTL)}}, nil
}

// Abandon implements driver.Backend.
func (l *lock) Abandon(ctx context.Context, req driver.Request) error {
	c := l.claim(req)
	if err := l.rdb.Set(ctx, goneKey(c.owner), 1, goneTime).Err(); err != nil {
		return unknown(ctx, err)
	}
	_, err := l.give(ctx, c)
	return unknown(ctx, err)
}

// Capabilities implements driver.Backend.
func (l *lock) Capabilities() driver.Capabilities { return l.caps }

// Close implements driver.Backend.
func (l *lock) Close() error { return l.rdb.Close() }

// lease is a claim that was granted.
type lease struct {
	l     *lock
	claim claim
	grant driver.Grant
	given bool // it was ours when it was released
}

// Grant implements driver.Lease.
func (l *lease) Grant() driver.Grant { return l.grant }

// Renew implements driver.Lease.
func (l *lease) Renew(ctx context.Context) (time.Time, error) {
	sent := time.Now()
	ours, err := l.l.prolong(ctx, l.claim)
	switch {
	case err != nil:
		return time.Time{}, unknown(ctx, err)
	case !ours:
		return time.Time{}, errLost
	}
	return l.l.until(sent, l.claim.ttl), nil
}

// Release implements driver.Lease. It asks the server each time, as a program does that releases twice.
func (l *lease) Release(ctx context.Context) error {
	ours, err := l.l.give(ctx, l.claim)
	l.given = l.given || ours
	switch {
	case err != nil:
		return unknown(ctx, err)
	case !l.given:
		return errLost
	}
	return nil
}

var errLost = fmt.Errorf("%w: the key is not there or has another value", driver.ErrLost)

// unknown is the error of a request of which nobody knows whether it was carried out; nil for nil.
func unknown(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", driver.ErrUnknown, errors.Join(err, ctx.Err()))
}

// unavailable is the error of a claim that is said to have had no effect.
func unavailable(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) }
