package worlds

import (
	"time"

	"github.com/lockport/lockport/faults"
)

// zooKeeperRecovery is within which time somebody acquires again after the leader was lost (docs/guarantees.md).
const zooKeeperRecovery = 3 * time.Second

// zooKeeperMemberCells are the faults of the nodes of an ensemble.
var zooKeeperMemberCells = []faults.Cell{
	{
		Fault: "leader-killed", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: onLeader(memberKilled),
		Why: "Nodes and sessions are on a quorum, and the next leader gives every session its whole timeout again.",
	},
	{
		Fault: "follower-killed", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: onFollower(memberKilled),
		Why: "The others are a quorum; who was connected to that node takes its session to another.",
	},
	{
		Fault: "leader-paused-briefly", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: onLeader(memberPaused(0.1, 0.9)),
		Why: "Who leads ends sessions only with a quorum, which follows another by then, or has gone on to follow this one.",
	},
	{
		Fault: "leader-paused", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: onLeader(memberPaused(1.25, 2)),
		Why: "When it goes on, it takes sessions to be at their end that the next leader has kept alive; but nothing that it says has a quorum.",
	},
	{
		Fault: "follower-cut", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: onFollower(memberCut),
		Why: "It answers its clients' pings for a while, of which the leader does not hear: validity counts only what a quorum has confirmed.",
	},
	{
		Fault: "leader-cut", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: onLeader(memberCut),
		Why: "It goes on to lead for a while, without a quorum, in which it can neither grant nor confirm anything.",
	},
	{
		Fault: "majority-killed", Outcome: faults.Unavailable, Recovery: zooKeeperRecovery, Strike: majorityKilled,
		Why: "One node alone serves nobody; when there is a quorum again, every session has its whole timeout.",
	},
	{
		Fault: "ensemble-restarted", Outcome: faults.Unavailable, Recovery: zooKeeperRecovery, Strike: allKilled,
		Why: "All are killed at the same moment: nodes and sessions are on the disks, and every session has its whole timeout again when there is a leader.",
	},
}
