package worlds

import (
	"context"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/servers"
)

// zooKeeperRecovery is within which time somebody acquires again after the leader was lost (docs/guarantees.md).
const zooKeeperRecovery = 3 * time.Second

// zooKeeperMemberCells are the faults of the nodes of an ensemble.
var zooKeeperMemberCells = []faults.Cell{
	{
		Fault: "leader-killed", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: zooKeeperLeaderKilled,
		Why: "Nodes and sessions are on a quorum, and the next leader gives every session its whole timeout again.",
	},
	{
		Fault: "follower-killed", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: zooKeeperFollowerKilled,
		Why: "The others are a quorum; who was connected to that node takes its session to another.",
	},
	{
		Fault: "leader-paused-briefly", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: zooKeeperLeaderPausedBriefly,
		Why: "Who leads ends sessions only with a quorum, which follows another by then, or has gone on to follow this one.",
	},
	{
		Fault: "leader-paused", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: zooKeeperLeaderPaused,
		Why: "When it goes on, it takes sessions to be at their end that the next leader has kept alive; but nothing that it says has a quorum.",
	},
	{
		Fault: "follower-cut", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: zooKeeperFollowerCut,
		Why: "It answers its clients' pings for a while, of which the leader does not hear: validity counts only what a quorum has confirmed.",
	},
	{
		Fault: "leader-cut", Outcome: faults.Safe, Recovery: zooKeeperRecovery, Strike: zooKeeperLeaderCut,
		Why: "It goes on to lead for a while, without a quorum, in which it can neither grant nor confirm anything.",
	},
	{
		Fault: "majority-killed", Outcome: faults.Unavailable, Recovery: zooKeeperRecovery, Strike: zooKeeperMajorityKilled,
		Why: "One node alone serves nobody; when there is a quorum again, every session has its whole timeout.",
	},
	{
		Fault: "ensemble-restarted", Outcome: faults.Unavailable, Recovery: zooKeeperRecovery, Strike: zooKeeperAllKilled,
		Why: "All are killed at the same moment: nodes and sessions are on the disks, and every session has its whole timeout again when there is a leader.",
	},
}

func zooKeeperLeaderKilled(ctx context.Context, p *faults.Phase) error {
	leader, _, err := zooKeepersOf(p).leader(ctx)
	if err != nil {
		return err
	}
	return memberKilled(ctx, p, leader)
}

func zooKeeperFollowerKilled(ctx context.Context, p *faults.Phase) error {
	follower, err := zooKeeperFollower(ctx, p)
	if err != nil {
		return err
	}
	return memberKilled(ctx, p, follower)
}

// zooKeeperFollower is the follower to whom most workers are connected.
func zooKeeperFollower(ctx context.Context, p *faults.Phase) (*servers.ZooKeeper, error) {
	w := zooKeepersOf(p)
	_, followers, err := w.leader(ctx)
	if err != nil {
		return nil, err
	}
	conns := func(node *servers.ZooKeeper) (n int) {
		for _, worker := range p.Workers() {
			n += worker.Seat.Links[slices.Index(w.nodes, node)].Conns()
		}
		return n
	}
	return slices.MaxFunc(followers, func(a, b *servers.ZooKeeper) int { return conns(a) - conns(b) }), nil
}

func zooKeeperLeaderPausedBriefly(ctx context.Context, p *faults.Phase) error {
	return zooKeeperLeaderPausedFor(ctx, p, p.Between(p.World.TTL/10, p.World.TTL*9/10))
}

func zooKeeperLeaderPaused(ctx context.Context, p *faults.Phase) error {
	return zooKeeperLeaderPausedFor(ctx, p, p.Between(p.World.TTL*5/4, p.World.TTL*2))
}

func zooKeeperLeaderPausedFor(ctx context.Context, p *faults.Phase, d time.Duration) error {
	leader, _, err := zooKeepersOf(p).leader(ctx)
	if err != nil {
		return err
	}
	if err := memberPaused(ctx, p, leader, d); err != nil {
		return err
	}
	return p.Sleep(ctx, underWay) // what it does now that it goes on
}

func zooKeeperFollowerCut(ctx context.Context, p *faults.Phase) error {
	follower, err := zooKeeperFollower(ctx, p)
	if err != nil {
		return err
	}
	return memberCut(ctx, p, zooKeepersOf(p).ensemble, slices.Index(zooKeepersOf(p).nodes, follower))
}

func zooKeeperLeaderCut(ctx context.Context, p *faults.Phase) error {
	w := zooKeepersOf(p)
	leader, _, err := w.leader(ctx)
	if err != nil {
		return err
	}
	return memberCut(ctx, p, w.ensemble, slices.Index(w.nodes, leader))
}

func zooKeeperMajorityKilled(ctx context.Context, p *faults.Phase) error {
	return membersKilled(ctx, p, majority(p, zooKeepersOf(p).nodes))
}

func zooKeeperAllKilled(ctx context.Context, p *faults.Phase) error {
	return membersKilled(ctx, p, zooKeepersOf(p).nodes)
}
