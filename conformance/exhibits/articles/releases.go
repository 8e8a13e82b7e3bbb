package articles

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// releases are locks that release in a wrong way.
var releases = []Exhibit{
	{
		Name: "plain-del", Hazard: "H3", Article: "000, 003, 004",
		Is: "DEL: a release that comes late or twice ends the next holder's lock",
		CaughtBy: []string{"ownership/late-release", "ownership/late-abandon", "ownership/release-twice", "ownership/release-twice-same-client",
			"ownership/abandon-of-others"},
		Sees: []string{notLost, grantedAgain, grantedAgain, grantedAgain, grantedAgain},
		one: giving(func(l *lock, ctx context.Context, c claim) (bool, error) {
			return true, l.rdb.Del(ctx, c.key).Err()
		}),
	},
	{
		Name: "get-then-del", Hazard: "H4", Article: "003",
		Is:       "GET, then DEL if the value is the holder's: a lock that ends between the two is the next holder's when it is deleted",
		CaughtBy: []string{"ownership/slow-release"}, Sees: []string{"a renewal of a claim that is held failed"},
		one: giving(func(l *lock, ctx context.Context, c claim) (bool, error) {
			value, err := l.rdb.Get(ctx, c.key).Result()
			if err != nil || value != c.value {
				return false, unlessNil(err)
			}
			return true, l.rdb.Del(ctx, c.key).Err()
		}),
	},
}

// What the suite says of a lock that ended with another's release.
const (
	notLost      = "of a claim that somebody else's has followed was not ErrLost but: none"
	grantedAgain = "the next holder has not released the name, yet another claim was granted"
)

// giving makes a lock that releases by give.
func giving(give func(*lock, context.Context, claim) (bool, error)) func(*lock) driver.Backend {
	return func(l *lock) driver.Backend {
		l.give = func(ctx context.Context, c claim) (bool, error) { return give(l, ctx, c) }
		return l
	}
}

// watchMulti makes a lock that releases in a transaction, which is sound.
var watchMulti = giving(func(l *lock, ctx context.Context, c claim) (ours bool, _ error) {
	err := l.rdb.Watch(ctx, func(tx *goredis.Tx) error {
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
})
