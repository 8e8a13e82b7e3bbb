package worlds

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/faults"
)

// zooKeeperRemovalCells are what an operator can do to a claim. Each fault comes twice: behind the holder's back, and on a network that is well.
var zooKeeperRemovalCells = []faults.Cell{
	{
		Fault: "session-ended-behind-silence", Outcome: faults.UnsafeFenced, Gone: true, Script: endedBehindSilence(endSession),
		Why: "A session that is ended takes its nodes with it at once; a holder whose link is silent does not hear of it, and believes until its deadline.",
	},
	{
		Fault: "session-ended", Outcome: faults.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(endSession),
		Why: "The holder is told by the server it is connected to, in milliseconds: in these, somebody else may have the lock already.",
	},
	{
		Fault: "node-deleted-behind-silence", Outcome: faults.UnsafeFenced, Gone: true, Script: endedBehindSilence(deleteNode),
		Why: "The next in line has the lock when the node is gone; a holder whose link is silent does not hear of it, and believes until its deadline.",
	},
	{
		Fault: "node-deleted", Outcome: faults.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(deleteNode),
		Why: "The holder's watch tells it, in milliseconds: in these, somebody else may have the lock already.",
	},
}

// endSession ends the session of the claim that holds the lock on name.
func endSession(ctx context.Context, p *faults.Phase, name string) error {
	w := zooKeepersOf(p)
	return atZooKeeper(ctx, w.nodes[0], func(c *zk.Conn) error {
		path, err := zooKeeperClaim(c, name)
		if err != nil {
			return err
		}
		_, node, err := c.Exists(path)
		if err != nil {
			return err
		}
		return w.nodes[0].EndSession(ctx, node.EphemeralOwner)
	})
}

// deleteNode deletes the node of the claim that holds the lock on name.
func deleteNode(ctx context.Context, p *faults.Phase, name string) error {
	return atZooKeeper(ctx, zooKeepersOf(p).nodes[0], func(c *zk.Conn) error {
		path, err := zooKeeperClaim(c, name)
		if err != nil {
			return err
		}
		return c.Delete(path, -1)
	})
}
