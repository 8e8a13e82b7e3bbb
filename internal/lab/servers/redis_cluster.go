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

// StartVoters returns a function that starts n independent Redis, for Redlock.
func StartVoters(n int) func(context.Context, RedisOptions) (*Group[*Redis], error) {
	return func(ctx context.Context, o RedisOptions) (*Group[*Redis], error) {
		return startRedises(ctx, "redlock", n, o)
	}
}

// startRedises starts n servers.
func startRedises(ctx context.Context, scheme string, n int, o RedisOptions) (*Group[*Redis], error) {
	return startGroup(ctx, scheme, n, false, func(ctx context.Context, s starting) (*Redis, error) {
		one := o
		one.port = s.ports[s.i]
		return StartRedis(ctx, one)
	})
}

// StartCluster starts a Redis Cluster of three masters without replicas, whose nodes have the options o; each serves a third of the slots. It returns
// when every node reports the cluster as ready, which takes Redis 2 s.
func StartCluster(ctx context.Context, o RedisOptions) (*Group[*Redis], error) {
	o.Config = append([]string{"cluster-enabled yes", "cluster-node-timeout 2000"}, o.Config...)
	c, err := startRedises(ctx, "redis+cluster", clusterMasters, o)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, []*Redis, int) error{joinCluster, clusterServes} {
		for i := 0; i < clusterMasters && err == nil; i++ {
			err = step(ctx, c.Nodes, i)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// joinCluster assigns slots to node i and introduces it to the first node. For the first node itself, the meeting has no effect.
func joinCluster(ctx context.Context, nodes []*Redis, i int) error {
	add := []any{"CLUSTER", "ADDSLOTS"}
	for slot := i * clusterSlots / clusterMasters; slot < (i+1)*clusterSlots/clusterMasters; slot++ {
		add = append(add, slot)
	}
	for _, command := range [][]any{
		{"CLUSTER", "SET-CONFIG-EPOCH", i + 1}, // distinct epochs spare the nodes a negotiation
		add,
		{"CLUSTER", "MEET", "127.0.0.1", nodes[0].port},
	} {
		if _, err := nodes[i].Do(ctx, command...); err != nil {
			return err
		}
	}
	return nil
}

// clusterServes waits until node i reports that the cluster serves.
func clusterServes(ctx context.Context, nodes []*Redis, i int) error {
	return Poll(ctx, func(ctx context.Context) error {
		reply, err := nodes[i].Do(ctx, "CLUSTER", "INFO")
		if info := fields(reply); info["cluster_state"] != "ok" || info["cluster_known_nodes"] != fmt.Sprint(clusterMasters) {
			err = errors.Join(err, fmt.Errorf("redis %s: the cluster is incomplete: %v", nodes[i].Addr(), info))
		}
		return err
	})
}
