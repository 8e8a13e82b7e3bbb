package faults

import (
	"context"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// etcdCells are the faults of a cluster. pausedTries is within how many plays a leader that was paused has a lease revoked.
func etcdCells(pausedTries int) []play.Cell {
	return slices.Concat(Common(false), etcdMemberCells(pausedTries), etcdRemovalCells, etcdSpaceCells)
}

func etcdIn(p *play.Phase) *environment.Etcd { return p.Environment.Servers.(*environment.Etcd) }

// etcdRecovery is within which time somebody acquires again after the leader was lost (docs/guarantees.md).
const etcdRecovery = 3 * time.Second

// etcdMemberCells are the faults of members. pausedTries is within how many plays a leader that was paused has a lease revoked.
func etcdMemberCells(pausedTries int) []play.Cell {
	return []play.Cell{
		{
			Fault: "leader-killed", Outcome: play.Safe, Recovery: etcdRecovery, Inject: on(leader, memberKilled),
			Why: "Keys and leases are on a majority of the members, and the next leader gives every lease its whole time again.",
		},
		{
			Fault: "follower-killed", Outcome: play.Safe, Recovery: etcdRecovery, Inject: on(follower, memberKilled),
			Why: "The others are a majority; who was connected to that member connects to another.",
		},
		{
			Fault: "leader-paused-briefly", Outcome: play.Safe, Recovery: etcdRecovery, Inject: on(leader, memberPaused(0.1, 0.5)),
			Why: "A leader that goes on within half of the TTL finds no lease at its end that somebody has kept alive meanwhile.",
		},
		{
			Fault: "leader-paused", Outcome: play.UnsafeFenced, Script: etcdLeaderPaused, Tries: pausedTries,
			Why: "A leader that goes on after it was stopped for longer than the TTL may have leases revoked that the next leader has kept alive; their holders are told, " +
				"but possibly after somebody else has the lock.",
		},
		{
			Fault: "leader-cut", Outcome: play.Safe, Recovery: etcdRecovery, Inject: on(leader, memberCut),
			Why: "It knows within two election timeouts that it has no majority, and ends no lease without one; the next leader gives every lease its whole time again.",
		},
		{
			Fault: "follower-cut", Outcome: play.Safe, Recovery: etcdRecovery, Inject: on(follower, memberCut),
			Why: "It can confirm nothing by itself; who is connected to it asks another.",
		},
		{
			Fault: "majority-killed", Outcome: play.Unavailable, Recovery: etcdRecovery, Inject: majorityKilled,
			Why: "One member alone grants nothing; when there is a majority again, every lease has its whole time.",
		},
		{
			Fault: "cluster-restarted", Outcome: play.Unavailable, Recovery: etcdRecovery, Inject: allKilled,
			Why: "All are killed at the same moment: keys and leases are on the disks, and every lease has its whole time again when there is a leader.",
		},
	}
}

// etcdRemovalCells are what an operator can do to a claim. Each fault comes twice: behind the holder's back, and on a network that is well.
var etcdRemovalCells = []play.Cell{
	{
		Fault: "lease-revoked-behind-silence", Outcome: play.UnsafeFenced, Gone: true, Script: endedBehindSilence(revokeLease),
		Why: "A lease that is revoked takes its keys with it at once; a holder whose link is silent does not hear of it, and believes until its deadline.",
	},
	{
		Fault: "lease-revoked", Outcome: play.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(revokeLease),
		Why: "The holder's watch tells it, in milliseconds: in these, somebody else may have the lock already.",
	},
	{
		Fault: "key-deleted-behind-silence", Outcome: play.UnsafeFenced, Gone: true, Script: endedBehindSilence(remove),
		Why: "The next in line has the lock when the key is gone; a holder whose link is silent does not hear of it, and believes until its deadline.",
	},
	{
		Fault: "key-deleted", Outcome: play.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(remove),
		Why: "The holder's watch tells it, in milliseconds: in these, somebody else may have the lock already.",
	},
}

func revokeLease(ctx context.Context, p *play.Phase, name string) error {
	return etcdIn(p).RevokeLease(ctx, name)
}

var etcdSpaceCells = []play.Cell{{
	Fault: "out-of-space", Outcome: play.Safe, Inject: etcdOutOfSpace,
	Why: "Who holds a lock goes on to renew it and can release it, which needs no space; new claims are refused before the alarm is disarmed, but who is in the queue " +
		"already has its key there, and gets the lock in turn.",
}}

// etcdOutOfSpace fills the database until the cluster has its alarm raised, and makes space again.
func etcdOutOfSpace(ctx context.Context, p *play.Phase) error {
	e := etcdIn(p)
	p.Injected()
	if err := e.Fill(ctx, p.Rand.IntN(len(e.Members()))); err != nil {
		return err
	}
	if err := p.Sleep(ctx, p.Between(p.Environment.TTL/2, p.Environment.TTL*3/2)); err != nil {
		return err
	}
	if err := e.MakeSpace(ctx); err != nil {
		return err
	}
	p.Healed()
	return nil
}
