package articles

import (
	"context"
	"errors"
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
