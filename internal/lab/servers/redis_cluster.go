package servers

import (
	"context"
	"fmt"
	"net"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	// clusterBus is how far above its port a node listens for the others.
	clusterBus = 10000
)

// Cluster is a Redis Cluster of three masters without replicas; each serves a third of the slots. Safe for concurrent use.
type Cluster struct {
	Nodes []*Redis
}

// StartCluster starts a Redis Cluster, each node with the options o, ready when every node says that the cluster is
// (which takes Redis 2 s). ctx bounds the start alone. The caller must Close the cluster.
func StartCluster(ctx context.Context, o RedisOptions) (*Cluster, error) {
	c := &Cluster{}
	if err := c.start(ctx, o); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, o RedisOptions) error {
	role := redisRole{config: []string{"cluster-enabled yes", "cluster-node-timeout 2000"}, portOffset: clusterBus}
	if o.TLS {
		role.config = append(role.config, "tls-cluster yes")
	}
	for i := range clusterMasters {
		node, err := startRedis(ctx, o, role, freePort)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, node)
		add := []any{"CLUSTER", "ADDSLOTS"}
		for slot := i * clusterSlots / clusterMasters; slot < (i+1)*clusterSlots/clusterMasters; slot++ {
			add = append(add, slot)
		}
		host, port, err := net.SplitHostPort(c.Nodes[0].Addr())
		if err != nil {
			return err
		}
		for _, command := range [][]any{
			{"CLUSTER", "SET-CONFIG-EPOCH", i + 1}, // distinct from the start, or the nodes must settle it first
			add,
			{"CLUSTER", "MEET", host, port}, // the first meets itself, which changes nothing
		} {
			if _, err := node.Do(ctx, command...); err != nil {
				return err
			}
		}
	}
	for _, node := range c.Nodes {
		if err := c.waitOK(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) waitOK(ctx context.Context, node *Redis) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return poll(ctx, func() error {
		reply, err := node.Do(ctx, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		info := fields(reply)
		if info["cluster_state"] != "ok" || info["cluster_known_nodes"] != fmt.Sprint(len(c.Nodes)) {
			return fmt.Errorf("redis %s: cluster_state %q, cluster_known_nodes %q",
				node.Addr(), info["cluster_state"], info["cluster_known_nodes"])
		}
		return nil
	})
}

// Addrs are the nodes' addresses, for a client to begin with.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

// Log is the end of what the nodes printed, for messages.
func (c *Cluster) Log() string { return logs(c.Nodes) }

// Close ends the nodes and removes their folders.
func (c *Cluster) Close() error { return closeAll(c.Nodes) }
