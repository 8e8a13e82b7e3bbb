package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	etcdNodes = 3
	// leaderTime is how long a node has to say who leads: a frozen one never does.
	leaderTime = 250 * time.Millisecond
)

// EtcdCluster is an etcd cluster of three nodes, each of which can be killed, frozen and restarted. A node that is restarted by itself is
// ready when it knows of a leader, for which another must be up. Safe for concurrent use.
type EtcdCluster struct {
	group[*Etcd]
	*quorumLinks // nil: they speak to each other directly
	options      EtcdOptions
}

// StartEtcdCluster starts an etcd cluster, each node with the options o. It is ready when all serve, which takes etcd 2 s, since new
// nodes ask each other about the past.
func StartEtcdCluster(ctx context.Context, o EtcdOptions) (*EtcdCluster, error) {
	c := &EtcdCluster{options: o}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *EtcdCluster) start(ctx context.Context) error {
	roles, token := make([]etcdRole, etcdNodes), rand.Text()
	var ports [][]int
	for i := range roles {
		port, err := freePort()
		if err != nil {
			return err
		}
		ports = append(ports, []int{port + peerOffset})
		roles[i] = etcdRole{name: fmt.Sprint("node", i), token: token, port: port}
	}
	var err error
	if c.options.Cuttable {
		if c.quorumLinks, err = newQuorumLinks(ports); err != nil {
			return err
		}
	}
	var members []string
	for i := range roles {
		if c.quorumLinks != nil {
			roles[i].proxy = c.fronts[i].Addr()
		}
		members = append(members, roles[i].name+"="+roles[i].advertised())
	}
	return c.startAll(ctx, etcdNodes, func(ctx context.Context, i int) (*Etcd, error) {
		roles[i].members = members
		return startEtcd(ctx, c.options, roles[i])
	})
}

// Leader waits until a majority of the nodes agree on a leader, which is up and one of them. ctx, and 30 s, bound it.
func (c *EtcdCluster) Leader(ctx context.Context) (leader *Etcd, err error) {
	err = pollFor(ctx, func(ctx context.Context) (err error) {
		leader, err = c.agreed(ctx)
		return err
	})
	return leader, err
}

// agreed asks every node once.
func (c *EtcdCluster) agreed(ctx context.Context) (leader *Etcd, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaderTime)
	defer cancel()
	members, leaders := make([]uint64, len(c.Nodes)), make([]uint64, len(c.Nodes))
	each(len(c.Nodes), func(i int) {
		if status, err := c.options.status(ctx, c.Nodes[i].Addr()); err == nil {
			members[i], leaders[i] = status.Header.MemberId, status.Leader
		}
	})
	votes := make(map[uint64]int)
	for _, id := range leaders {
		votes[id]++
	}
	for i, id := range members {
		if id != 0 && leaders[i] == id && votes[id] > len(c.Nodes)/2 {
			return c.Nodes[i], nil
		}
	}
	return nil, fmt.Errorf("no majority agrees on a leader: %x", leaders)
}

// Restart kills all nodes, then starts all, as after a power cut.
func (c *EtcdCluster) Restart(ctx context.Context) error {
	errs := make([]error, len(c.Nodes))
	for i, node := range c.Nodes {
		errs[i] = node.Kill() // Stop would have the leader look in vain for a successor
	}
	each(len(c.Nodes), func(i int) { errs[i] = errors.Join(errs[i], c.Nodes[i].Restart(ctx)) })
	return errors.Join(errs...)
}

// URL names all nodes: "etcd://127.0.0.1:port,127.0.0.1:port,127.0.0.1:port".
func (c *EtcdCluster) URL() string { return c.options.scheme("etcd") + strings.Join(c.Addrs(), ",") }

// Close ends the nodes and removes their folders.
func (c *EtcdCluster) Close() error { return errors.Join(c.group.Close(), c.quorumLinks.close()) }
