package articles

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// step is one thing that a lock does with a claim. It says whether the claim has the lock, or had it until then.
type step func(ctx context.Context, c *claim) (bool, error)

// lock is a lock in steps. As it is opened it is sound; an exhibit replaces a step.
type lock struct {
	rdb  *goredis.Client // of a lock in one Redis
	caps driver.Capabilities
	as   driver.Backend // what the suite gets: the lock, or what adds to it

	key      func(name string) string
	value    func(owner string) string // what the server says of the holder
	take     step                      // claims
	prolong  step                      // renews
	give     step                      // releases
	undo     step                      // releases what may not have arrived yet
	valid    validity
	patience func(ttl time.Duration) time.Duration // how long one of several servers is waited for
	close    func() error
}

// validity is how long a claim is believed that was sent then, and whether anything of that is left.
type validity func(sent time.Time, ttl time.Duration) (until time.Time, left bool)

// claim is a claim as the server sees it, and its lease.
type claim struct {
	lock              *lock
	key, value, owner string
	ttl               time.Duration
	grant             driver.Grant
	given             bool // it had the lock when it was released
}

func (l *lock) claim(req driver.Request) *claim {
	ttl := (req.TTL + time.Millisecond - 1).Truncate(time.Millisecond)
	return &claim{lock: l, key: l.key(req.Name), value: l.value(req.Owner), owner: req.Owner, ttl: ttl}
}

// TryAcquire implements driver.Backend.
func (l *lock) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	if req.TTL < l.caps.MinTTL {
		return nil, fmt.Errorf("%w: the TTL %v is too short", driver.ErrRefused, req.TTL)
	}
	c := l.claim(req)
	sent := time.Now()
	got, err := l.take(ctx, c)
	until, left := l.valid(sent, req.TTL)
	switch {
	case err != nil:
		return nil, unknown(ctx, err)
	case !got:
		return nil, &driver.HeldError{}
	case !left:
		_, _ = l.give(ctx, c)
		return nil, unknown(ctx, fmt.Errorf("it took %v, which is longer than the lock would have lasted", time.Since(sent)))
	}
	c.grant.Until = until
	return c, nil
}

// Abandon implements driver.Backend.
func (l *lock) Abandon(ctx context.Context, req driver.Request) error {
	_, err := l.undo(ctx, l.claim(req))
	return unknown(ctx, err)
}

// Capabilities implements driver.Backend.
func (l *lock) Capabilities() driver.Capabilities { return l.caps }

// Close implements driver.Backend.
func (l *lock) Close() error { return l.close() }

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Renew implements driver.Lease.
func (c *claim) Renew(ctx context.Context) (time.Time, error) {
	sent := time.Now()
	ours, err := c.lock.prolong(ctx, c)
	until, left := c.lock.valid(sent, c.ttl)
	switch {
	case err != nil:
		return time.Time{}, unknown(ctx, err)
	case !ours:
		return time.Time{}, errLost
	case !left:
		return time.Time{}, unknown(ctx, errors.New("it took too long"))
	}
	return until, nil
}

// Release implements driver.Lease. It asks the server each time, as a program does that releases twice.
func (c *claim) Release(ctx context.Context) error {
	ours, err := c.lock.give(ctx, c)
	c.given = c.given || ours
	switch {
	case err != nil:
		return unknown(ctx, err)
	case !c.given:
		return errLost
	}
	return nil
}

var errLost = fmt.Errorf("%w: the server does not have it, or somebody else does", driver.ErrLost)

// unknown is the error of a request that may have been carried out, unless it is one that says otherwise; nil for nil.
func unknown(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, driver.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnknown, errors.Join(err, ctx.Err()))
}
