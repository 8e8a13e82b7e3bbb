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
	{Fault: "clock-set-back", Outcome: report.Safe, Script: play.Storm(granting.clocksBack),
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

// redisFailoverCells replace the master where grants do not wait for the replica.
var redisFailoverCells = slices.Concat(Common(false), []play.Cell{
	{Fault: "master-lost-behind-cut-link", Outcome: report.Fenced, Script: overtaken(failOver(0, 0), Lag), Tries: overtakenTries,
		Why: "the promoted replica never received the lock and grants it again; tokens start from its clock and still rise"},
	{Fault: "two-masters", Outcome: report.Fenced, Script: redisTwoMasters, Tries: overtakenTries,
		Why: "holders connected to the old master keep renewing there as long as it lives; the new master grants the same locks"},
	{Fault: "master-killed", Outcome: report.Fenced, Script: play.Storm(play.InOrder((*play.Phase).Injected, redisMasterReplaced)), Argued: true,
		Why: "Redis acknowledges before it replicates. On a healthy link the gap is so short that kill -9 rarely hits it; no trial lost a lock"},
	{Fault: "replica-killed", Outcome: report.Safe, Script: play.Storm(contested(lasting(redisReplicaKilled, 0.1, 1))),
		Why: "the master serves without its replica"},
})

// redisReplicasCells replace the master where every grant and renewal waits for the only replica.
var redisReplicasCells = slices.Concat(Common(false), []play.Cell{
	{Fault: "master-killed", Outcome: report.Safe, Script: play.Storm(contested(play.InOrder((*play.Phase).Injected, redisMasterReplaced))),
		Why: "the only replica has every acknowledged lock. Of several replicas, one that did not acknowledge may be promoted: unsafe but fenced"},
	{Fault: "master-lost-behind-cut-link", Outcome: report.Safe, Script: play.Storm(contested(redisMasterReplacedUnseen)),
		Why: "without the replica's acknowledgement, a grant is undone and a renewal extends nothing"},
	{Fault: "link-cut", Outcome: report.Unavailable, Script: play.Storm(contested(unavailable(until(Lag, redisFollow), 0.25, 1, 1.5))),
		Why: "without the replica, grants are undone (ErrUnavailable), and holds end"},
	{Fault: "replica-killed", Outcome: report.Unavailable, Script: play.Storm(contested(unavailable(redisReplicaKilled, 0.25, 1, 1.5))),
		Why: "too few replicas remain to acknowledge a grant"},
})

// Lag makes the replica miss what the primary writes from now on.
var Lag = at(environment.Pair.Lag)

var (
	redisFollow = at((*environment.RedisPair).Follow)
	// redisReplicaKilled ends when the replica follows again.
	redisReplicaKilled = until(func(s *play.Phase) { play.Check(in[*environment.RedisPair](s).Replica.Kill()) }, redisFollow)
)

// redisMasterReplaced fails over to the replica, which gets a replica of its own at once.
var redisMasterReplaced = play.InOrder(failOver(0, 0.5), redisFollow, (*play.Phase).Healed)

// redisMasterReplacedUnseen replaces the master after its replica has missed writes for a while.
func redisMasterReplacedUnseen(s *play.Phase) {
	s.Injected()
	Lag(s)
	s.Pause(0, 1.2)
	redisMasterReplaced(s)
}

// redisTwoMasters promotes the replica while the old master and a holder on it keep running.
func redisTwoMasters(s *play.Phase) {
	older := s.Worker()
	Lag(s)
	had := s.Acquire(older)
	has := holdElsewhere(s)
	s.Pause(2, 2) // both renew
	s.Both(had, has)
	had.Release() // the old master may only be a replica soon
	s.Healed()
}

var redisSentinelCells = slices.Concat(Common(true), []play.Cell{
	{Fault: "master-killed-behind-cut-link", Outcome: report.Fenced, Script: sentinelMasterLostUnseen, Tries: 12,
		Why: "Sentinel promotes a replica that never received the lock; the replica grants it again if promotion takes less than the TTL"},
	{Fault: "master-killed", Outcome: report.Fenced, Script: play.Storm(sentinelMasterGone((*servers.Redis).Kill)), Argued: true,
		Why: "Redis acknowledges before it replicates. On a healthy link the gap is so short that kill -9 rarely hits it"},
	{Fault: "master-paused", Outcome: report.Fenced, Script: play.Storm(sentinelMasterGone((*servers.Redis).Freeze)), Argued: true,
		Why: "a replaced master that resumes answers clients still connected to it until Sentinel demotes it"},
})

// sentinelMasterGone harms the master, waits until there is another one, and then resumes the old one if it was frozen.
func sentinelMasterGone(harm func(*servers.Redis) error) play.Act {
	return func(s *play.Phase) {
		set := in[*environment.RedisSentinel](s)
		master := play.Must(set.Master(s.Ctx))
		s.Injected()
		play.Check(harm(master))
		play.Must(set.WaitFailover(s.Ctx, master))
		s.Healed()
		s.Pause(0, 0.5)
		_ = master.Thaw() // an error if it was killed
	}
}

// sentinelMasterLostUnseen keeps a lock from the replicas, and kills the master. A master that refuses replication is equivalent to a cut link.
func sentinelMasterLostUnseen(s *play.Phase) {
	set := in[*environment.RedisSentinel](s)
	master := play.Must(set.Master(s.Ctx))
	play.Must(master.Do(s.Ctx, "ACL", "SETUSER", "default", "-psync", "-sync"))
	// A restarted master has forgotten the setting. If something fails and the master still runs, it must not go on refusing.
	defer func() { _, _ = master.Do(context.WithoutCancel(s.Ctx), "ACL", "SETUSER", "default", "+psync", "+sync") }()
	play.Must(master.Do(s.Ctx, "CLIENT", "KILL", "TYPE", "replica"))
	overtaken(func(s *play.Phase) {
		s.Note("the master is killed")
		play.Check(master.Kill())
		// The newer worker starts as soon as one sentinel names another master: the older one's next renewal finds that master soon too.
		play.Check(servers.Poll(s.Ctx, func(ctx context.Context) error {
			named, _ := set.Named(ctx)
			if !slices.ContainsFunc(named, func(addr string) bool { return addr != master.Addr() }) {
				return errors.New("no sentinel names another master")
			}
			return nil
		}))
	})(s)
}
