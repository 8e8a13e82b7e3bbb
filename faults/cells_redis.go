package faults

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// afterClocks is within which time somebody acquires again after clocks were set back by a TTL of 2 s at most.
var afterClocks = recovers(2*2*time.Second + time.Second)

// redisCells are the faults of a Redis that keeps its data.
var redisCells = slices.Concat(Common(false), cells(
	row{"server-killed", play.Safe, storm(contested(lasting(granting.killed, 0.01, 0.2)), isBack),
		"with appendfsync always the server comes back with every lock that it acknowledged, and expiries are instants"},
	row{"server-killed-for-long", play.Unavailable, storm(contested(unavailable(granting.killed, 0.25, 0.5, 1.5)), isBack),
		"holds end before their keys expire"},
	row{"server-paused", play.Safe, storm(contested(lasting(granting.frozen, 0.1, 0.9)), isBack),
		"what was sent to a paused server is carried out when it goes on, by the clock of that moment"},
	row{"server-paused-for-long", play.Unavailable, storm(contested(unavailable(granting.frozen, 0.25, 0.9, 1.6)), isBack),
		"holds end before the keys expire, and renewals that arrive later find them gone"},
	row{"disk-full", play.Unavailable, storm(contested(unavailable(redisDiskFull, 0.25, 1, 1.5))),
		"a Redis that is told to save snapshots and cannot (MISCONF) refuses every write, renewals and releases too, so that holds end; " +
			"one that cannot write its append-only file under appendfsync always ends itself, as if it were killed"},
	row{"clock-set-back", play.Safe, storm(granting.clocksBack(0.1), afterClocks),
		"expiries are instants of the server's clock: the lock of a dead holder lasts longer by as much as the clock was set back"},
	row{"out-of-memory", play.Safe, storm(redisFull),
		"a full server (noeviction) refuses new claims, while renewals and releases need no memory: locks that are held stay held, and " +
			"who waits in the queue already gets them in turn"},
	row{"lock-evicted", play.UnsafeFenced, script(overtaken(redisEvicts), tries(overtakenTries)),
		"with a memory limit and an allkeys policy Redis throws locks away; the holder learns it at its next renewal"},
	row{"server-restarted-empty", play.UnsafeFenced, script(overtaken(granting.wiped), tries(overtakenTries)),
		"a server that comes back without its data grants again what is held; tokens begin with its clock, and so still rise"},
	row{"lock-deleted", play.UnsafeFenced, script(play.InOrder(overtaken(play.InOrder(removed, remove)), removedOpenly(remove, false)), tries(overtakenTries)),
		"an operator's DEL frees the lock at once; the holder learns it at its next renewal"},
	row{"clock-set-forward", play.UnsafeFenced, script(overtaken(play.InOrder(removed, granting.clocksForward)), tries(overtakenTries)),
		"expiries are instants of the server's clock: set forward, it ends locks early"},
))

var redisDiskFull = until(at((*environment.Redis).FailToSave), at((*environment.Redis).SaveAgain))

// redisSet is an act that changes settings.
func redisSet(settings ...any) play.Act {
	return at(func(r *environment.Redis, ctx context.Context) error { return r.Set(ctx, settings...) })
}

// redisFull has no memory be left while workers work, and one more of them have a lock, which it must keep.
func redisFull(s *play.Phase) {
	keeper := s.Worker()
	kept := s.Acquire(keeper, 1)
	lasting(until(redisSet("maxmemory", 1), redisSet("maxmemory", 0)), 1, 1.5)(s)
	if !kept.Valid() {
		play.Check(errors.New("a lock that was held when the memory ran out did not stay held"))
	}
	keeper.Kill()
}

// redisEvicts has the server throw away all that it has.
func redisEvicts(s *play.Phase) {
	removed(s)
	redisSet("maxmemory-policy", "allkeys-lru", "maxmemory", 1)(s)
	s.Eventually(func(ctx context.Context) error {
		n, err := in[*environment.Redis](s).Do(ctx, "EXISTS", environment.RedisKey(s.Name()))
		if err == nil && n != int64(0) {
			err = errors.New("the lock has not been evicted")
		}
		return err
	})
	redisSet("maxmemory", 0)(s)
}
