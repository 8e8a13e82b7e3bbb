package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ensembleSize is how many nodes there are; two of them are a quorum.
const ensembleSize = 3

// Ensemble is a ZooKeeper ensemble of three nodes, any two of which serve. A node's Restart returns when it serves, which needs
// another one that runs: restart two that are down at the same time. Safe for concurrent use.
type Ensemble struct {
	group[*ZooKeeper]
	*quorumLinks
}

// StartEnsemble starts an ensemble, ready when all nodes serve. A node notices within a second that it has lost its leader, or its
// followers, and the next leader is there some 300 ms later.
func StartEnsemble(ctx context.Context, o ZooKeeperOptions) (*Ensemble, error) {
	e := new(Ensemble)
	if err := e.start(ctx, o); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Ensemble) start(ctx context.Context, o ZooKeeperOptions) error {
	config := []string{
		"initLimit=50", // ticks to join a leader
		"syncLimit=10", // ticks of silence until a leader or a follower is given up
	}
	var ports [][]int
	for i := range ensembleSize {
		port, err := freePort()
		if err != nil {
			return err
		}
		ports = append(ports, []int{port, port + peerOffset}) // for followers, and for elections
		config = append(config, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, port, port+peerOffset))
	}
	o.Config = append(config, o.Config...)
	var err error
	if e.quorumLinks, err = newQuorumLinks(ports); err != nil {
		return err
	}
	return e.startAll(ctx, ensembleSize, func(ctx context.Context, i int) (*ZooKeeper, error) {
		o := o
		_, proxy, _ := strings.Cut(e.fronts[i].Addr().String(), ":")
		o.JVM = slices.Concat([]string{
			"-DsocksProxyHost=127.0.0.1",
			"-DsocksProxyPort=" + proxy,
			"-DsocksNonProxyHosts=", // none, where Java by itself spares the machine's own addresses
			// A node alone asks the others for a vote less and less often, up to once a minute: too late after Heal.
			"-Dzookeeper.fastleader.maxNotificationInterval=400",
		}, o.JVM)
		return startZooKeeper(ctx, o, fmt.Sprint(i+1))
	})
}

// URL is the ensemble's: "zookeeper://127.0.0.1:port,127.0.0.1:port,127.0.0.1:port".
func (e *Ensemble) URL() string { return "zookeeper://" + strings.Join(e.Addrs(), ",") }

// Leader waits until exactly one node calls itself the leader, and returns it. One that is down, frozen or cut off gives itself no name,
// but for its last second.
func (e *Ensemble) Leader(ctx context.Context) (*ZooKeeper, error) { return e.WaitFailover(ctx, nil) }

// WaitFailover waits until exactly one node calls itself the leader and is not old, and returns it.
func (e *Ensemble) WaitFailover(ctx context.Context, old *ZooKeeper) (leader *ZooKeeper, err error) {
	err = pollFor(ctx, func(ctx context.Context) (err error) {
		leader, err = e.leader(ctx)
		if err == nil && leader == old {
			err = fmt.Errorf("%s is still the leader", old.Addr())
		}
		return err
	})
	return leader, err
}

// leader asks every node once.
func (e *Ensemble) leader(ctx context.Context) (*ZooKeeper, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderTime)
	defer cancel()
	modes, errs := make([]string, len(e.Nodes)), make([]error, len(e.Nodes))
	each(len(e.Nodes), func(i int) { modes[i], errs[i] = mode(ctx, e.Nodes[i].Addr()) })
	i := slices.Index(modes, "leader")
	if i < 0 || slices.Contains(modes[i+1:], "leader") {
		return nil, errors.Join(append(errs, fmt.Errorf("not one node calls itself the leader: %q", modes))...)
	}
	return e.Nodes[i], nil
}

// Close ends all nodes and removes their folders.
func (e *Ensemble) Close() error { return errors.Join(e.group.Close(), e.quorumLinks.close()) }
