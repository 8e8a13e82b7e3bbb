package faults

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// zooKeeperRecovery is within which time somebody acquires again after the leader was lost (docs/guarantees.md).
const zooKeeperRecovery = 3 * time.Second

// zooKeeperMemberCells are the faults of the nodes of an ensemble.
var zooKeeperMemberCells = []play.Cell{
	{
		Fault: "leader-killed", Outcome: play.Safe, Recovery: zooKeeperRecovery, Inject: on(leader, memberKilled),
		Why: "Nodes and sessions are on a quorum, and the next leader gives every session its whole timeout again.",
	},
	{
		Fault: "follower-killed", Outcome: play.Safe, Recovery: zooKeeperRecovery, Inject: on(follower, memberKilled),
		Why: "The others are a quorum; who was connected to that node takes its session to another.",
	},
	{
		Fault: "leader-paused-briefly", Outcome: play.Safe, Recovery: zooKeeperRecovery, Inject: on(leader, memberPaused(0.1, 0.9)),
		Why: "Who leads ends sessions only with a quorum, which follows another by then, or has gone on to follow this one.",
	},
	{
		Fault: "leader-paused", Outcome: play.Safe, Recovery: zooKeeperRecovery, Inject: on(leader, memberPaused(1.25, 2)),
		Why: "When it goes on, it takes sessions to be at their end that the next leader has kept alive; but nothing that it says has a quorum.",
	},
	{
		Fault: "follower-cut", Outcome: play.Safe, Recovery: zooKeeperRecovery, Inject: on(follower, memberCut),
		Why: "It answers its clients' pings for a while, of which the leader does not hear: validity counts only what a quorum has confirmed.",
	},
	{
		Fault: "leader-cut", Outcome: play.Safe, Recovery: zooKeeperRecovery, Inject: on(leader, memberCut),
		Why: "It goes on to lead for a while, without a quorum, in which it can neither grant nor confirm anything.",
	},
	{
		Fault: "majority-killed", Outcome: play.Unavailable, Recovery: zooKeeperRecovery, Inject: majorityKilled,
		Why: "One node alone serves nobody; when there is a quorum again, every session has its whole timeout.",
	},
	{
		Fault: "ensemble-restarted", Outcome: play.Unavailable, Recovery: zooKeeperRecovery, Inject: allKilled,
		Why: "All are killed at the same moment: nodes and sessions are on the disks, and every session has its whole timeout again when there is a leader.",
	},
}

// zooKeeperRemovalCells are what an operator can do to a claim. Each fault comes twice: behind the holder's back, and on a network that is well.
var zooKeeperRemovalCells = []play.Cell{
	{
		Fault: "session-ended-behind-silence", Outcome: play.UnsafeFenced, Gone: true, Script: endedBehindSilence(endSession),
		Why: "A session that is ended takes its nodes with it at once; a holder whose link is silent does not hear of it, and believes until its deadline.",
	},
	{
		Fault: "session-ended", Outcome: play.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(endSession),
		Why: "The holder is told by the server it is connected to, in milliseconds: in these, somebody else may have the lock already.",
	},
	{
		Fault: "node-deleted-behind-silence", Outcome: play.UnsafeFenced, Gone: true, Script: endedBehindSilence(remove),
		Why: "The next in line has the lock when the node is gone; a holder whose link is silent does not hear of it, and believes until its deadline.",
	},
	{
		Fault: "node-deleted", Outcome: play.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(remove),
		Why: "The holder's watch tells it, in milliseconds: in these, somebody else may have the lock already.",
	},
}

// endSession ends the session of the claim that holds the lock on name.
func endSession(ctx context.Context, p *play.Phase, name string) error {
	return p.Environment.Servers.(*environment.ZooKeeper).EndSession(ctx, name)
}
