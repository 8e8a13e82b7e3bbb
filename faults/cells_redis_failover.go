package faults

import (
	"context"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

func redisPairIn(p *play.Phase) *environment.RedisPair {
	return p.Environment.Servers.(*environment.RedisPair)
}

// redisFailoverCells are how a lock fares when its master is replaced, and nobody waited for the replica.
var redisFailoverCells = []play.Cell{
	{
		Fault:   "master-lost-behind-cut-link",
		Outcome: play.UnsafeFenced,
		Script:  overtaken(redisMasterLostUnseen),
		Tries:   redisTries,
		Why:     "the promoted replica never heard of the lock, and grants it again; tokens begin with its clock, and so still rise",
	}, {
		Fault:   "two-masters",
		Outcome: play.UnsafeFenced,
		Script:  redisTwoMasters,
		Tries:   redisTries,
		Why: "while the old master lives on, holders that are connected to it go on renewing there, for as long as it lives, and the new " +
			"one grants the same locks",
	}, {
		Fault:   "master-killed",
		Outcome: play.UnsafeFenced,
		Inject:  redisMasterKilled,
		Argued:  true,
		Why: "Redis acknowledges before it copies. With a healthy link the time between is so short that kill -9 hardly meets it: nothing " +
			"was lost when it was tried",
	}, {
		Fault:  "replica-killed",
		Inject: contested(lasting(redisReplicaKilled, 0.1, 1, redisReplicaFollows)),
		Why:    "the master serves without its replica",
	},
}

// redisReplicasCells are how a lock fares when its master is replaced, and every grant and renewal waited for the only replica.
var redisReplicasCells = []play.Cell{
	{
		Fault:  "master-killed",
		Inject: contested(redisMasterKilled),
		Why: "the only replica has every lock that was acknowledged. With several replicas one that has not acknowledged may be promoted: " +
			"then it is unsafe but fenced",
	}, {
		Fault:  "master-lost-behind-cut-link",
		Inject: contested(redisMasterKilledUnseen),
		Why:    "what the replica does not hear of is not granted, and a renewal that it does not hear of prolongs nothing",
	}, {
		Fault:   "link-cut",
		Outcome: play.Unavailable,
		Inject:  contested(unavailable(redisLinkCut, 1, 1.5, redisReplicaFollows)),
		Why:     "without its replica the master's grants are given back (ErrUnavailable), and holds end",
	}, {
		Fault:   "replica-killed",
		Outcome: play.Unavailable,
		Inject:  contested(unavailable(redisReplicaKilled, 1, 1.5, redisReplicaFollows)),
		Why:     "as many replicas as are asked for must live",
	},
}

func redisLinkCut(ctx context.Context, p *play.Phase) error { return redisPairIn(p).Lag(ctx) }

func redisReplicaKilled(_ context.Context, p *play.Phase) error {
	return redisPairIn(p).Replica.Kill()
}

func redisReplicaFollows(ctx context.Context, p *play.Phase) error {
	return redisPairIn(p).Follow(ctx)
}

// redisMasterLostUnseen has the replica not hear of the lock, which is acquired anew for that, kills the master and promotes the replica.
func redisMasterLostUnseen(ctx context.Context, p *play.Phase, c *couple) (err error) {
	w := redisPairIn(p)
	if err := c.held.Release(ctx); err != nil {
		return err
	}
	w.Link.Freeze()
	if c.held, err = c.older.Acquire(ctx, p.Name(), p.Environment.TTL); err != nil {
		return err
	}
	p.Note("the master is killed, and its replica promoted")
	if err := w.Master.Kill(); err != nil {
		return err
	}
	return w.Promote(ctx)
}

// redisTwoMasters promotes the replica while the holder stays connected to the old master, which goes on. The newer worker comes by the
// address when it leads to the new one.
func redisTwoMasters(ctx context.Context, p *play.Phase) (err error) {
	w, c := redisPairIn(p), &couple{}
	if c.older, err = p.Worker(ctx); err != nil {
		return err
	}
	w.Link.Freeze()
	if c.held, err = c.older.Acquire(ctx, p.Name(), p.Environment.TTL); err != nil {
		return err
	}
	p.Injected()
	if err := w.Promote(ctx); err != nil {
		return err
	}
	if c.newer, err = p.Worker(ctx); err != nil {
		return err
	}
	taken, err := c.newer.Acquire(ctx, p.Name(), p.Environment.TTL)
	if err != nil {
		return err
	}
	if err := p.Sleep(ctx, 2*p.Environment.TTL); err != nil { // both renew
		return err
	}
	if err := p.Both(ctx, c.held, taken); err != nil {
		return err
	}
	p.Healed()
	return nil
}

// redisMasterKilled kills the master and promotes the replica, which has a replica again at once.
var redisMasterKilled = inOrder(injected, redisMasterReplaced)

// redisMasterKilledUnseen is redisMasterKilled after a time in which the replica heard nothing.
var redisMasterKilledUnseen = inOrder(injected, redisLinkCut, pause(0, 1.2), redisMasterReplaced)

func redisMasterReplaced(ctx context.Context, p *play.Phase) error {
	r := redisPairIn(p)
	return inOrder(
		func(context.Context, *play.Phase) error { return r.Master.Kill() },
		pause(0, 0.5),
		func(ctx context.Context, _ *play.Phase) error { return r.Promote(ctx) },
		redisReplicaFollows, healed)(ctx, p)
}
