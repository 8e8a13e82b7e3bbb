package servers

import (
	"context"
	"errors"
	"fmt"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
)

// Cluster is a Redis Cluster of three masters without replicas; each serves a third of the slots. Safe for concurrent use.
type Cluster struct{ group[*Redis] }

// StartCluster starts a Redis Cluster whose nodes have the options o. It returns when every node reports the cluster as ready, which takes Redis 2
// s.
func StartCluster(ctx context.Context, o RedisOptions) (*Cluster, error) {
	o.Config = append([]string{"cluster-enabled yes", "cluster-node-timeout 2000"}, o.Config...)
	c := new(Cluster)
	err := c.startAll(ctx, clusterMasters, func(ctx context.Context, _ int) (*Redis, error) { return StartRedis(ctx, o) })
	for _, step := range []func(context.Context, int) error{c.join, c.ready} {
		for i := 0; i < clusterMasters && err == nil; i++ {
			err = step(ctx, i)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// join assigns slots to node i and introduces it to the first node. For the first node itself, the meeting has no effect.
func (c *Cluster) join(ctx context.Context, i int) error {
	add := []any{"CLUSTER", "ADDSLOTS"}
	for slot := i * clusterSlots / clusterMasters; slot < (i+1)*clusterSlots/clusterMasters; slot++ {
		add = append(add, slot)
	}
	for _, command := range [][]any{
		{"CLUSTER", "SET-CONFIG-EPOCH", i + 1}, // distinct epochs spare the nodes a negotiation
		add,
		{"CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port},
	} {
		if _, err := c.Nodes[i].Do(ctx, command...); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until node i reports that the cluster serves.
func (c *Cluster) ready(ctx context.Context, i int) error {
	return Poll(ctx, func(ctx context.Context) error {
		reply, err := c.Nodes[i].Do(ctx, "CLUSTER", "INFO")
		if info := fields(reply); info["cluster_state"] != "ok" || info["cluster_known_nodes"] != fmt.Sprint(clusterMasters) {
			err = errors.Join(err, fmt.Errorf("redis %s: the cluster is incomplete: %v", c.Nodes[i].Addr(), info))
		}
		return err
	})
}
