package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// quorumNodes is the size of an etcd cluster or a ZooKeeper ensemble. Two nodes are a majority.
	quorumNodes = 3
	// leaderTime bounds the query to each node: a frozen node never answers.
	leaderTime = 250 * time.Millisecond
)

// member is one node of a quorum group.
type member interface {
	node
	URL() string
	leads(ctx context.Context) (bool, error)
}

// quorumGroup is a group of three nodes, of which any two can serve. A node's Restart returns when it serves, which needs a second running node.
type quorumGroup[N member] struct {
	group[N]
	*quorumLinks // nil: the nodes connect to each other directly
}

// EtcdCluster is an etcd cluster of three nodes. Safe for concurrent use.
type EtcdCluster struct{ quorumGroup[*Etcd] }

// Ensemble is a ZooKeeper ensemble of three nodes. Safe for concurrent use.
type Ensemble struct{ quorumGroup[*ZooKeeper] }

// StartEtcdCluster starts an etcd cluster whose nodes have the options o, ready when all serve. That takes 2 s: new nodes first look for peers.
func StartEtcdCluster(ctx context.Context, o EtcdOptions) (*EtcdCluster, error) {
	c := new(EtcdCluster)
	return c, c.start(ctx, o.Cuttable, func(ctx context.Context, i int, ports []int, proxy string) (*Etcd, error) {
		return startEtcd(ctx, o, ports, i, proxy)
	})
}

// StartEnsemble starts an ensemble, ready when all nodes serve. A node notices within a second that it lost its leader or its followers. The next
// leader is elected about 300 ms later.
func StartEnsemble(ctx context.Context, o ZooKeeperOptions) (*Ensemble, error) {
	e := new(Ensemble)
	return e, e.start(ctx, true, func(ctx context.Context, i int, ports []int, proxy string) (*ZooKeeper, error) {
		config := []string{
			"initLimit=50", // ticks to join a leader
			"syncLimit=10", // ticks of silence after which a leader or follower is dropped
		}
		for j, port := range ports { // for followers, and for elections
			config = append(config, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", j+1, port, port+peerOffset))
		}
		_, proxyPort, _ := strings.Cut(proxy, ":")
		jvm := []string{
			"-DsocksProxyHost=127.0.0.1",
			"-DsocksProxyPort=" + proxyPort,
			"-DsocksNonProxyHosts=", // none; by default, Java bypasses the proxy for loopback addresses
			// An isolated node asks for votes ever less often, down to once a minute. After Heal that would be too slow.
			"-Dzookeeper.fastleader.maxNotificationInterval=400",
		}
		return startZooKeeper(ctx, ZooKeeperOptions{Config: append(config, o.Config...), JVM: append(jvm, o.JVM...)}, i+1)
	})
}

// start calls node for each node, with the ports of all and the proxy through which it must reach the others; empty: none.
func (q *quorumGroup[N]) start(ctx context.Context, cuttable bool, node func(ctx context.Context, i int, ports []int, proxy string) (N, error)) error {
	proxies := make([]string, quorumNodes)
	ports, err := freePorts(quorumNodes)
	if err != nil {
		return err
	}
	if cuttable {
		if q.quorumLinks, err = newQuorumLinks(ports); err != nil {
			return err
		}
		for i, front := range q.fronts {
			proxies[i] = front.Addr().String()
		}
	}
	err = q.startAll(ctx, quorumNodes, func(ctx context.Context, i int) (N, error) { return node(ctx, i, ports, proxies[i]) })
	if err != nil {
		err = errors.Join(err, q.Close())
	}
	return err
}

// URL returns a URL with all nodes: "etcd://127.0.0.1:port,127.0.0.1:port,127.0.0.1:port".
func (q *quorumGroup[N]) URL() string {
	return q.Nodes[0].URL() + "," + strings.Join(q.Addrs()[1:], ",")
}

// Leader waits until exactly one node reports that it leads, and returns its index. A node that is down, frozen or cut off does not lead, except
// for a moment after the fault.
func (q *quorumGroup[N]) Leader(ctx context.Context) (leader int, err error) {
	err = Poll(ctx, func(ctx context.Context) error {
		leaders := 0
		var errs []error
		for i, node := range q.Nodes {
			asking, cancel := context.WithTimeout(ctx, leaderTime)
			leads, err := node.leads(asking)
			cancel()
			if leads {
				leader, leaders = i, leaders+1
			}
			errs = append(errs, err)
		}
		if leaders != 1 {
			return errors.Join(append(errs, fmt.Errorf("%d nodes report that they lead", leaders))...)
		}
		return nil
	})
	return leader, err
}

// Close ends all nodes and removes their folders.
func (q *quorumGroup[N]) Close() error { return errors.Join(q.group.Close(), q.quorumLinks.close()) }
