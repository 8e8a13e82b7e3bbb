package worlds

import (
	"time"

	"github.com/lockport/lockport/faults"
)

// etcdRecovery is within which time somebody acquires again after the leader was lost (docs/guarantees.md).
const etcdRecovery = 3 * time.Second

// etcdMemberCells are the faults of members. pausedTries is within how many plays a leader that was paused has a lease revoked.
func etcdMemberCells(pausedTries int) []faults.Cell {
	return []faults.Cell{
		{
			Fault: "leader-killed", Outcome: faults.Safe, Recovery: etcdRecovery, Strike: onLeader(memberKilled),
			Why: "Keys and leases are on a majority of the members, and the next leader gives every lease its whole time again.",
		},
		{
			Fault: "follower-killed", Outcome: faults.Safe, Recovery: etcdRecovery, Strike: onFollower(memberKilled),
			Why: "The others are a majority; who was connected to that member connects to another.",
		},
		{
			Fault: "leader-paused-briefly", Outcome: faults.Safe, Recovery: etcdRecovery, Strike: onLeader(memberPaused(0.1, 0.5)),
			Why: "A leader that goes on within half of the TTL finds no lease at its end that somebody has kept alive meanwhile.",
		},
		{
			Fault: "leader-paused", Outcome: faults.UnsafeFenced, Script: etcdLeaderPaused, Tries: pausedTries,
			Why: "A leader that goes on after it was stopped for longer than the TTL may have leases revoked that the next leader has kept alive; their holders are told, " +
				"but possibly after somebody else has the lock.",
		},
		{
			Fault: "leader-cut", Outcome: faults.Safe, Recovery: etcdRecovery, Strike: onLeader(memberCut),
			Why: "It knows within two election timeouts that it has no majority, and ends no lease without one; the next leader gives every lease its whole time again.",
		},
		{
			Fault: "follower-cut", Outcome: faults.Safe, Recovery: etcdRecovery, Strike: onFollower(memberCut),
			Why: "It can confirm nothing by itself; who is connected to it asks another.",
		},
		{
			Fault: "majority-killed", Outcome: faults.Unavailable, Recovery: etcdRecovery, Strike: majorityKilled,
			Why: "One member alone grants nothing; when there is a majority again, every lease has its whole time.",
		},
		{
			Fault: "cluster-restarted", Outcome: faults.Unavailable, Recovery: etcdRecovery, Strike: allKilled,
			Why: "All are killed at the same moment: keys and leases are on the disks, and every lease has its whole time again when there is a leader.",
		},
	}
}
