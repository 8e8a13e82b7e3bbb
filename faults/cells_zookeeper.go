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
		Why: "Nodes and sessions are on a quorum; the next leader restarts every session's timeout."},
	{Fault: "follower-killed", Outcome: play.Safe, Inject: followerKilled, Recovery: leaderless,
		Why: "The others are a quorum; clients move their sessions to them."},
	{Fault: "leader-paused-briefly", Outcome: play.Safe, Inject: spared(leader.frozen, 0.1, 0.9), Recovery: leaderless,
		Why: "A leader ends sessions only with a quorum, which follows it still or follows another leader."},
	{Fault: "leader-paused", Outcome: play.Safe, Inject: spared(leader.frozen, 1.25, 2), Recovery: leaderless,
		Why: "When it resumes, it would expire sessions that the next leader kept alive, but it has no quorum."},
	{Fault: "follower-cut", Outcome: play.Safe, Inject: followerCut, Recovery: leaderless,
		Why: "It answers pings for a while, unknown to the leader; validity counts only what a quorum confirmed."},
	{Fault: "leader-cut", Outcome: play.Safe, Inject: leaderCut, Recovery: leaderless,
		Why: "It believes to lead for a while, but without a quorum it grants and confirms nothing."},
	{Fault: "majority-killed", Outcome: play.Unavailable, Inject: majorityKilled, Recovery: leaderless,
		Why: "One node alone serves nobody. With a quorum again, every session's timeout restarts."},
	{Fault: "ensemble-restarted", Outcome: play.Unavailable, Inject: allKilled, Recovery: leaderless,
		Why: "Nodes and sessions are on disk; the new leader restarts every session's timeout."},
	{Fault: "session-ended-behind-silence", Outcome: play.UnsafeFenced, Script: endedBehindSilence(endSession), Gone: true,
		Why: "Ending a session deletes its nodes at once; a holder with a silent link believes until its deadline."},
	{Fault: "session-ended", Outcome: play.UnsafeFenced, Script: removedOpenly(endSession, false), Gone: true, Argued: true,
		Why: "Its server tells the holder within milliseconds, in which the next waiter may be granted."},
	{Fault: "node-deleted-behind-silence", Outcome: play.UnsafeFenced, Script: endedBehindSilence(remove), Gone: true,
		Why: "The next in line has the lock when the node is gone; a holder whose link is silent does not hear of it, and believes until its deadline."},
	{Fault: "node-deleted", Outcome: play.UnsafeFenced, Script: removedOpenly(remove, false), Gone: true, Argued: true, Why: whyWatched},
})
