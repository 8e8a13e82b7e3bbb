package faults

import (
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// endSession ends the session of the claim that holds the lock.
var endSession = named((*environment.ZooKeeper).EndSession)

// zooKeeperCells are the faults of an ensemble.
var zooKeeperCells = slices.Concat(Common(false), cells(
	row{"leader-killed", play.Safe, leaderKilled,
		"Nodes and sessions are on a quorum, and the next leader gives every session its whole timeout again."},
	row{"follower-killed", play.Safe, followerKilled,
		"The others are a quorum; who was connected to that node takes its session to another."},
	row{"leader-paused-briefly", play.Safe, storm(spared(leader.frozen, 0.1, 0.9), inThreeSeconds),
		"Who leads ends sessions only with a quorum, which follows another by then, or has gone on to follow this one."},
	row{"leader-paused", play.Safe, storm(spared(leader.frozen, 1.25, 2), inThreeSeconds),
		"When it goes on, it takes sessions to be at their end that the next leader has kept alive; but nothing that it says has a quorum."},
	row{"follower-cut", play.Safe, followerCut,
		"It answers its clients' pings for a while, of which the leader does not hear: validity counts only what a quorum has confirmed."},
	row{"leader-cut", play.Safe, leaderCut,
		"It goes on to lead for a while, without a quorum, in which it can neither grant nor confirm anything."},
	row{"majority-killed", play.Unavailable, majorityKilled,
		"One node alone serves nobody; when there is a quorum again, every session has its whole timeout."},
	row{"ensemble-restarted", play.Unavailable, allKilled,
		"All are killed at the same moment: nodes and sessions are on the disks, and every session has its whole timeout again when there is a leader."},
	row{"session-ended-behind-silence", play.UnsafeFenced, script(endedBehindSilence(endSession), gone),
		"A session that is ended takes its nodes with it at once; a holder whose link is silent does not hear of it, and believes until its deadline."},
	row{"session-ended", play.UnsafeFenced, script(removedOpenly(endSession, false), argued),
		"The holder is told by the server it is connected to, in milliseconds: in these, somebody else may have the lock already."},
	row{"node-deleted-behind-silence", play.UnsafeFenced, script(endedBehindSilence(remove), gone),
		"The next in line has the lock when the node is gone; a holder whose link is silent does not hear of it, and believes until its deadline."},
	row{"node-deleted", play.UnsafeFenced, script(removedOpenly(remove, false), argued), whyWatched},
))
