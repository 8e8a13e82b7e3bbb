package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	etcdNodes = 3
	// leaderTime is how long a node has to say who leads: a frozen one never does.
	leaderTime = 250 * time.Millisecond
)

// EtcdCluster is an etcd cluster of three nodes, each of which can be killed, frozen and restarted. Safe for concurrent use.
type EtcdCluster struct {
	Nodes   []*Etcd
	options EtcdOptions
	links   *quorumLinks // nil: they speak to each other directly
}

// StartEtcdCluster starts an etcd cluster, each node with the options o, ready when all serve (which takes etcd 2 s, since new
// nodes ask each other about the past). ctx bounds the start alone.
// The caller must Close the cluster.
func StartEtcdCluster(ctx context.Context, o EtcdOptions) (*EtcdCluster, error) {
	return startEtcdCluster(ctx, o, freePort)
}

func startEtcdCluster(ctx context.Context, o EtcdOptions, pick func(int) (int, error)) (*EtcdCluster, error) {
	for attempt := 1; ; attempt++ {
		c := &EtcdCluster{options: o}
		err := c.start(ctx, pick)
		if err == nil {
			return c, nil
		}
		_ = c.Close()
		// Each node is told the others' ports: where one is taken, all need new ones.
		if !errors.Is(err, errPortTaken) || attempt == portAttempts {
			return nil, err
		}
	}
}

// start leaves in c the nodes that started.
func (c *EtcdCluster) start(ctx context.Context, pick func(int) (int, error)) error {
	var ports []int
	for len(ports) < etcdNodes {
		port, err := pick(etcdPeer)
		if err != nil {
			return err
		}
		ports = append(ports, port)
	}
	roles, err := c.roles(ports)
	if err != nil {
		return err
	}
	nodes := make([]*Etcd, etcdNodes)
	err = atOnce(ctx, etcdNodes, func(ctx context.Context, i int) (err error) {
		nodes[i], err = startEtcd(ctx, c.options, roles[i], func(int) (int, error) { return ports[i], nil })
		return err
	})
	c.Nodes = slices.DeleteFunc(nodes, func(e *Etcd) bool { return e == nil })
	if err != nil {
		return err
	}
	return enableAuth(ctx, c.Nodes...)
}

// roles are those of nodes on these ports.
func (c *EtcdCluster) roles(ports []int) (roles [etcdNodes]etcdRole, err error) {
	if c.options.Cuttable {
		var peers [etcdNodes][]int
		for i, port := range ports {
			peers[i] = []int{port + etcdPeer}
		}
		if c.links, err = newQuorumLinks(peers); err != nil {
			return roles, err
		}
	}
	token := etcdName()
	var members []string
	for i, port := range ports {
		roles[i] = etcdRole{name: etcdName(), token: token}
		if c.links != nil {
			roles[i].proxy = c.links.front(i)
		}
		members = append(members, roles[i].name+"="+roles[i].advertised(port))
	}
	for i := range roles {
		roles[i].members = members
	}
	return roles, nil
}

// Leader waits until a majority of the nodes agree on a leader, which is up and one of them. ctx, and 30 s, bound it.
func (c *EtcdCluster) Leader(ctx context.Context) (*Etcd, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var leader *Etcd
	err := poll(ctx, func() (err error) {
		leader, err = c.agreed(ctx)
		return err
	})
	return leader, err
}

// agreed asks every node once.
func (c *EtcdCluster) agreed(ctx context.Context) (*Etcd, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderTime)
	defer cancel()
	leaders := make([]uint64, len(c.Nodes))
	var calls sync.WaitGroup
	for i, node := range c.Nodes {
		calls.Go(func() {
			if status, err := node.client.status(ctx); err == nil {
				leaders[i] = status.Leader
			}
		})
	}
	calls.Wait()
	for i, node := range c.Nodes {
		votes := 0
		for _, leader := range leaders {
			if leader == node.member.Load() {
				votes++
			}
		}
		if votes > len(c.Nodes)/2 && leaders[i] == node.member.Load() {
			return node, nil
		}
	}
	return nil, fmt.Errorf("no majority of %v agrees on a leader that is up: %x", c.Addrs(), leaders)
}

// Restart kills all nodes, then starts all, as after a power cut. A node that is restarted by itself is ready when it knows of
// a leader, for which another must be up.
func (c *EtcdCluster) Restart(ctx context.Context) error {
	for _, node := range c.Nodes {
		if err := node.Kill(); err != nil { // Stop would have the leader look in vain for a successor
			return err
		}
	}
	return atOnce(ctx, len(c.Nodes), func(ctx context.Context, i int) error { return c.Nodes[i].Restart(ctx) })
}

// Addrs are the nodes' addresses.
func (c *EtcdCluster) Addrs() []string { return addrs(c.Nodes) }

// URL names all nodes, with root's password if there is one: "etcd://127.0.0.1:port,127.0.0.1:port,127.0.0.1:port".
func (c *EtcdCluster) URL() string { return c.options.url(strings.Join(c.Addrs(), ",")) }

// Log is the end of what the nodes printed, for messages.
func (c *EtcdCluster) Log() string { return logs(c.Nodes) }

// CutFromQuorum cuts node i (0 to 2) from the other nodes, as a broken network does: without a word. Clients still reach it. Cuts add up. The
// cluster must have been started with EtcdOptions.Cuttable.
func (c *EtcdCluster) CutFromQuorum(i int) {
	if c.links == nil {
		panic("servers: an etcd cluster can be cut only if it was started with EtcdOptions.Cuttable")
	}
	c.links.cut(i)
}

// Heal ends all cuts: what was under way between the nodes is lost, and they connect anew.
func (c *EtcdCluster) Heal() {
	if c.links != nil {
		c.links.heal()
	}
}

// Close ends the nodes and removes their folders.
func (c *EtcdCluster) Close() error {
	err := closeAll(c.Nodes)
	if c.links != nil {
		err = errors.Join(err, c.links.close())
	}
	return err
}
