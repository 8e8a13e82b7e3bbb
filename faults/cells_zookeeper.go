package faults

import (
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// endSession ends the session of the claim that holds the lock.
var endSession = named((*environment.ZooKeeper).EndSession)

// zooKeeperCells are the faults of an ensemble.
var zooKeeperCells = slices.Concat(Common(false), []play.Cell{
	{Fault: "leader-killed", Outcome: play.Safe, Inject: leaderKilled, Recovery: leaderless,
		Why: "Nodes and sessions are on a quorum, and the next leader gives every session its whole timeout again."},
	{Fault: "follower-killed", Outcome: play.Safe, Inject: followerKilled, Recovery: leaderless,
		Why: "The others are a quorum; clients of that node take their sessions to another."},
	{Fault: "leader-paused-briefly", Outcome: play.Safe, Inject: spared(leader.frozen, 0.1, 0.9), Recovery: leaderless,
		Why: "A leader ends sessions only with a quorum, which by then follows another leader, or still follows this one."},
	{Fault: "leader-paused", Outcome: play.Safe, Inject: spared(leader.frozen, 1.25, 2), Recovery: leaderless,
		Why: "When it goes on, it takes sessions to be at their end that the next leader has kept alive; but nothing that it says has a quorum."},
	{Fault: "follower-cut", Outcome: play.Safe, Inject: followerCut, Recovery: leaderless,
		Why: "It answers its clients' pings for a while, of which the leader does not hear: validity counts only what a quorum has confirmed."},
	{Fault: "leader-cut", Outcome: play.Safe, Inject: leaderCut, Recovery: leaderless,
		Why: "It goes on to lead for a while, without a quorum, in which it can neither grant nor confirm anything."},
	{Fault: "majority-killed", Outcome: play.Unavailable, Inject: majorityKilled, Recovery: leaderless,
		Why: "One node alone serves nobody; when there is a quorum again, every session has its whole timeout."},
	{Fault: "ensemble-restarted", Outcome: play.Unavailable, Inject: allKilled, Recovery: leaderless,
		Why: "All are killed at the same moment: nodes and sessions are on the disks, and every session has its whole timeout again when there is a leader."},
	{Fault: "session-ended-behind-silence", Outcome: play.UnsafeFenced, Script: endedBehindSilence(endSession), Gone: true,
		Why: "A session that is ended takes its nodes with it at once; a holder whose link is silent does not hear of it, and believes until its deadline."},
	{Fault: "session-ended", Outcome: play.UnsafeFenced, Script: removedOpenly(endSession, false), Gone: true, Argued: true,
		Why: "The holder is told by the server it is connected to, in milliseconds: in these, somebody else may have the lock already."},
	{Fault: "node-deleted-behind-silence", Outcome: play.UnsafeFenced, Script: endedBehindSilence(remove), Gone: true,
		Why: "The next in line has the lock when the node is gone; a holder whose link is silent does not hear of it, and believes until its deadline."},
	{Fault: "node-deleted", Outcome: play.UnsafeFenced, Script: removedOpenly(remove, false), Gone: true, Argued: true, Why: whyWatched},
})
