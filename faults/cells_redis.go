package faults

import (
	"context"
	"errors"
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// leaseCells are the faults of one server that keeps its data, and with it locks that expire.
var leaseCells = []play.Cell{
	{Fault: "server-killed", Outcome: report.Safe, Script: play.Storm(contested(lasting(granting.killed, 0.01, 0.2))),
		Why: "the server returns with every lock it acknowledged (Redis: with appendfsync always)"},
	{Fault: "server-killed-for-long", Outcome: report.Unavailable, Script: play.Storm(contested(unavailable(granting.killed, 0.25, 0.5, 1.5))),
		Why: "holds end before the server's entries expire"},
	{Fault: "server-paused", Outcome: report.Safe, Script: play.Storm(contested(lasting(granting.frozen, 0.1, 0.9))),
		Why: "a resumed server runs delayed requests by its current clock"},
	{Fault: "server-paused-for-long", Outcome: report.Unavailable, Script: play.Storm(contested(unavailable(granting.frozen, 0.25, 0.9, 1.6))),
		Why: "holds end before the server's entries expire; later renewals find them expired"},
}

// redisCells are the faults of a Redis that keeps its data.
var redisCells = slices.Concat(Common(false), leaseCells, []play.Cell{
	{Fault: "disk-full", Outcome: report.Unavailable, Script: play.Storm(contested(unavailable(redisDiskFull, 0.25, 1, 1.5))),
		Why: "a Redis that cannot save snapshots (MISCONF) refuses every write, so holds end; with appendfsync always it exits instead"},
	{Fault: "clock-set-back", Outcome: report.Safe, Script: play.Storm(granting.clocksBack(0.1)),
		Why: "keys expire by the server's clock: a dead holder's lock lasts longer by the size of the jump"},
	{Fault: "out-of-memory", Outcome: report.Safe, Script: play.Storm(redisFull),
		Why: "a full server (noeviction) refuses new claims; renewals and releases need no memory, and queued waiters get the lock in turn"},
	{Fault: "lock-evicted", Outcome: report.Fenced, Script: overtaken(redisEvicts), Tries: overtakenTries,
		Why: "under a memory limit with an allkeys policy Redis evicts locks; the holder notices at its next renewal"},
	{Fault: "server-restarted-empty", Outcome: report.Fenced, Script: overtaken(granting.wiped), Tries: overtakenTries,
		Why: "a server without its data grants held locks again; tokens start from its clock and still rise"},
	{Fault: "lock-deleted", Outcome: report.Fenced, Script: play.InOrder(overtaken(Remove), removedOpenly(Remove, false)), Tries: overtakenTries,
		Why: "an operator's DEL frees the lock at once; the holder notices at its next renewal"},
	{Fault: "clock-set-forward", Outcome: report.Fenced, Script: overtaken(granting.clocksForward), Tries: overtakenTries,
		Why: "keys expire by the server's clock: set forward, it ends locks early"},
})

var redisDiskFull = until(at((*environment.Redis).FailToSave), at((*environment.Redis).SaveAgain))

func redisSet(settings ...any) play.Act {
	return at(func(r *environment.Redis, ctx context.Context) error { return r.ConfigSet(ctx, settings...) })
}

// redisFull uses up the server's memory while workers work. An additional worker must keep its lock.
func redisFull(s *play.Phase) {
	keeper := s.Worker()
	kept := s.Acquire(keeper)
	lasting(until(redisSet("maxmemory", 1), redisSet("maxmemory", 0)), 1, 1.5)(s)
	if !kept.Valid() {
		play.Check(errors.New("a lock was lost when the memory ran out"))
	}
	keeper.Kill()
}

func redisEvicts(s *play.Phase) {
	redisSet("maxmemory-policy", "allkeys-lru", "maxmemory", 1)(s)
	play.Check(servers.Poll(s.Ctx, func(ctx context.Context) error {
		n, err := in[*environment.Redis](s).Do(ctx, "EXISTS", environment.RedisKey(s.Name))
		if err == nil && n != int64(0) {
			err = errors.New("the lock has not been evicted")
		}
		return err
	}))
	redisSet("maxmemory", 0)(s)
}
