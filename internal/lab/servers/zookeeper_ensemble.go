package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// ensembleSize is how many nodes there are; two of them are a quorum.
const ensembleSize = 3

// Ensemble is a ZooKeeper ensemble of three nodes, any two of which serve. Safe for concurrent use.
type Ensemble struct {
	// Nodes are the three servers. A node's Restart returns when it serves, which needs another one that runs: restart
	// two that are down at the same time.
	Nodes []*ZooKeeper

	links *quorumLinks
}

// StartEnsemble starts an ensemble, ready when all nodes serve. A node notices within a second that it has lost its leader, or its
// followers, and the next leader is there some 300 ms later. ctx bounds the start alone. The caller must Close the ensemble.
func StartEnsemble(ctx context.Context, o ZooKeeperOptions) (*Ensemble, error) {
	for attempt := 1; ; attempt++ {
		e := &Ensemble{}
		err := e.start(ctx, o)
		if err == nil {
			return e, nil
		}
		_ = e.Close()
		taken := e.links == nil || e.links.taken() // between the choice of the ports and the start
		if !taken || attempt == portAttempts || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (e *Ensemble) start(ctx context.Context, o ZooKeeperOptions) (err error) {
	if e.links, err = zooKeeperLinks(); err != nil {
		return err
	}
	nodes := make([]*ZooKeeper, ensembleSize)
	err = atOnce(ctx, ensembleSize, func(ctx context.Context, i int) (err error) {
		nodes[i], err = e.startNode(ctx, o, i)
		return err
	})
	e.Nodes = slices.DeleteFunc(nodes, func(z *ZooKeeper) bool { return z == nil })
	return err
}

func (e *Ensemble) startNode(ctx context.Context, o ZooKeeperOptions, i int) (*ZooKeeper, error) {
	role := zooKeeperRole{
		id: i + 1,
		config: append(e.links.config(),
			"initLimit=50", // ticks to join a leader
			"syncLimit=10", // ticks of silence until a leader or a follower is given up
		),
		jvm: append(e.links.jvm(i),
			// A node alone asks the others for a vote less and less often, up to once a minute: too late after Heal.
			"-Dzookeeper.fastleader.maxNotificationInterval=400"),
	}
	return startZooKeeper(ctx, o, role)
}

// Addrs are the nodes' addresses for clients.
func (e *Ensemble) Addrs() []string { return addrs(e.Nodes) }

// URL is the ensemble's: "zookeeper://127.0.0.1:port,127.0.0.1:port,127.0.0.1:port".
func (e *Ensemble) URL() string { return "zookeeper://" + strings.Join(e.Addrs(), ",") }

// Leader waits until exactly one node calls itself the leader, and returns it. One that is down, frozen or cut off gives itself no name,
// but for its last second.
func (e *Ensemble) Leader(ctx context.Context) (*ZooKeeper, error) { return e.WaitFailover(ctx, nil) }

// WaitFailover waits until exactly one node calls itself the leader and is not old, and returns it.
func (e *Ensemble) WaitFailover(ctx context.Context, old *ZooKeeper) (leader *ZooKeeper, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err = poll(ctx, func() (err error) {
		leader, err = e.leader(ctx)
		if err == nil && leader == old {
			err = fmt.Errorf("%s is still the leader", old.Addr())
		}
		return err
	})
	return leader, err
}

// leader asks all nodes, at the same time and not for long, since a frozen one never answers.
func (e *Ensemble) leader(ctx context.Context) (*ZooKeeper, error) {
	ctx, cancel := context.WithTimeout(ctx, wordTime/4)
	defer cancel()
	modes := make([]string, len(e.Nodes))
	errs := make([]error, len(e.Nodes))
	var asking sync.WaitGroup
	for i, node := range e.Nodes {
		asking.Go(func() { modes[i], errs[i] = node.Mode(ctx) })
	}
	asking.Wait()
	var leader *ZooKeeper
	for i, mode := range modes {
		switch {
		case mode != "leader":
		case leader != nil:
			return nil, fmt.Errorf("%s and %s both call themselves the leader", leader.Addr(), e.Nodes[i].Addr())
		default:
			leader = e.Nodes[i]
		}
	}
	if leader == nil {
		return nil, errors.Join(append(errs, errors.New("no node is the leader"))...)
	}
	return leader, nil
}

// CutFromQuorum cuts node i (0 to 2) from the other nodes, as a broken network does: without a word, so that each side goes
// on for a second before it believes it. Clients still reach the node. Cuts add up.
func (e *Ensemble) CutFromQuorum(i int) { e.links.cut(i) }

// Heal ends all cuts: what was under way between the nodes is lost, and they connect anew.
func (e *Ensemble) Heal() { e.links.heal() }

// Log is the end of what the nodes printed, for messages.
func (e *Ensemble) Log() string { return logs(e.Nodes) }

// Close ends all nodes and removes their folders.
func (e *Ensemble) Close() error {
	err := closeAll(e.Nodes)
	if e.links != nil {
		err = errors.Join(err, e.links.close())
	}
	return err
}
