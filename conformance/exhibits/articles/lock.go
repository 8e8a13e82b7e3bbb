package articles

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// step is one operation on a claim. It reports whether the claim holds the lock, or held it until the operation.
type step func(ctx context.Context, c *claim) (bool, error)

// lock is a lock in steps. It is sound until an exhibit replaces a step.
type lock struct {
	rdb  *goredis.Client // with one Redis
	caps driver.Capabilities
	as   driver.Backend // what the suite gets: the lock, or a wrapper

	key      func(name string) string
	value    func(owner string) string // the holder as the server stores it
	take     step                      // claims
	renew    step                      // renews
	release  step                      // releases
	undo     step                      // releases a claim that may not have arrived yet
	valid    validity
	patience func(ttl time.Duration) time.Duration // timeout for one of several servers
	close    func() error
}

// validity returns until when a claim sent at sent is valid, and whether any of that is left.
type validity func(sent time.Time, ttl time.Duration) (until time.Time, left bool)

// claim is a claim as the server sees it, and its lease.
type claim struct {
	lock              *lock
	key, value, owner string
	ttl               time.Duration
	grant             driver.Grant
	released          bool // it held the lock when it was released
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
		_, _ = l.release(ctx, c)
		return nil, unknown(ctx, fmt.Errorf("the claim took %v, so none of its validity is left", time.Since(sent)))
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

// Renew implements driver.Renewer.
func (c *claim) Renew(ctx context.Context) (time.Time, error) {
	sent := time.Now()
	ours, err := c.lock.renew(ctx, c)
	until, left := c.lock.valid(sent, c.ttl)
	switch {
	case err != nil:
		return time.Time{}, unknown(ctx, err)
	case !ours:
		return time.Time{}, errLost
	case !left:
		return time.Time{}, unknown(ctx, errors.New("the renewal took too long"))
	}
	return until, nil
}

// Release implements driver.Lease. It asks the server at every call, like a program that releases twice.
func (c *claim) Release(ctx context.Context) error {
	ours, err := c.lock.release(ctx, c)
	c.released = c.released || ours
	switch {
	case err != nil:
		return unknown(ctx, err)
	case !c.released:
		return errLost
	}
	return nil
}

var errLost = fmt.Errorf("%w: the server has no claim, or another holder's", driver.ErrLost)

// unknown marks err as ErrUnknown, unless it is nil or ErrUnavailable.
func unknown(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, driver.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnknown, errors.Join(err, ctx.Err()))
}
