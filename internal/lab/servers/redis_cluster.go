package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const clusterMasters = 3

// StartVoters returns a function that starts n independent Redis, for Redlock.
func StartVoters(n int) func(context.Context, RedisOptions) (*Group[*Redis], error) {
	return func(ctx context.Context, o RedisOptions) (*Group[*Redis], error) {
		return startGroup(ctx, "redlock", n, false, func(ctx context.Context, s starting) (*Redis, error) {
			one := o
			one.port = s.ports[s.i]
			return StartRedis(ctx, one)
		})
	}
}

// StartCluster starts a Redis Cluster of three masters without replicas. It returns when every node reports the cluster as ready, which takes 2 s.
func StartCluster(ctx context.Context, o RedisOptions) (*Group[*Redis], error) {
	o.Config = append([]string{"cluster-enabled yes", "cluster-node-timeout 2000"}, o.Config...)
	c, err := StartVoters(clusterMasters)(ctx, o)
	if err != nil {
		return nil, err
	}
	c.scheme = "redis+cluster"
	err = runTool(ctx, "", "", "redis-cli", slices.Concat([]string{"--cluster", "create"}, c.Addrs(), []string{"--cluster-yes"})...)
	for _, node := range c.Nodes {
		if err == nil {
			err = node.servesCluster(ctx)
		}
		if err == nil { // 2 s is for the start: a busy machine may stop a node for longer
			_, err = node.Do(ctx, "CONFIG", "SET", "cluster-node-timeout", 15_000)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// servesCluster waits until the node reports that the cluster serves.
func (r *Redis) servesCluster(ctx context.Context) error {
	return Poll(ctx, func(ctx context.Context) error {
		reply, err := r.Do(ctx, "CLUSTER", "INFO")
		if info := fields(reply); info["cluster_state"] != "ok" || info["cluster_known_nodes"] != fmt.Sprint(clusterMasters) {
			err = errors.Join(err, fmt.Errorf("redis %s: the cluster is incomplete: %v", r.Addr(), info))
		}
		return err
	})
}
