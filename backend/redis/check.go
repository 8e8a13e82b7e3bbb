package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
	"github.com/lockport/lockport/internal/redisscript"
)

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	var all notice.List
	err := b.eachNode(ctx, func(ctx context.Context, node goredis.Cmdable) error { return b.checkNode(ctx, node, &all) })
	if err == nil {
		err = b.tryScripts(ctx, &all)
	}
	if err == nil && !b.pipe.Cluster() {
		err = b.pipe.Spread(ctx, b.layout)
	}
	if err != nil {
		return nil, redisscript.Explain(b.addr(), err)
	}
	return all, nil
}

// tryScripts tries the scripts' commands on the server or, since each has its own users, on the masters of a Cluster. A refusal of any is an error.
// Other errors count if no master served: a slot that no node has does not fail the others.
func (b *Backend) tryScripts(ctx context.Context, all *notice.List) error {
	calls := map[*goredis.Client]redisscript.Call{nil: redisscript.Check.Call(b.keysOf(redisscript.CheckName()))}
	if cluster, ok := b.pipe.Client.(*goredis.ClusterClient); ok {
		for range 1000 { // random slots
			keys := b.keysOf(redisscript.CheckName())
			master, _ := cluster.MasterForKey(ctx, keys[0]) // eachNode has loaded the slots
			calls[master] = redisscript.Check.Call(keys)
		}
	}
	served := false
	var failed error
	for _, r := range b.pipe.RunAll(ctx, slices.Collect(maps.Values(calls))) {
		err := redisscript.Tried(r, all)
		if errors.Is(err, driver.ErrRefused) {
			return err
		}
		served, failed = served || err == nil, cmp.Or(failed, err)
	}
	if served {
		return nil
	}
	return failed
}

// addr is the address of the server, for errors.
func (b *Backend) addr() string {
	if c, ok := b.pipe.Client.(*goredis.Client); ok && c.Options().Addr != failoverAddr {
		return c.Options().Addr
	}
	return "the server"
}

// failoverAddr is the address that go-redis reports for a Sentinel client.
const failoverAddr = "FailoverClient"

// checkNode checks a node's settings, role and address.
func (b *Backend) checkNode(ctx context.Context, node goredis.Cmdable, all *notice.List) error {
	remedies := redisscript.Remedies{
		Restart: "Enable the append-only file (appendonly yes), or accept that only fencing tokens protect across a restart: they keep rising.",
		Replica: "use its master's address, or Sentinel",
	}
	if !b.pipe.Cluster() {
		remedies.Cluster = "use redis+cluster:// or a cluster client"
	}
	if c, ok := node.(*goredis.Client); ok {
		if o := c.Options(); o.Password != "" && o.TLSConfig == nil && o.Network == "tcp" && o.Addr != failoverAddr {
			all.Add(notice.InTheClear(o.Addr)...)
		}
	}
	info, err := redisscript.CheckServer(ctx, node, remedies, all)
	if err != nil || info == nil {
		return err
	}
	replicas, _ := strconv.Atoi(info["connected_slaves"])
	switch {
	case replicas < b.o.Replicas:
		return fmt.Errorf("%w: too few replicas are connected (%d of %d) to acknowledge locks: add replicas, or require fewer",
			driver.ErrUnavailable, replicas, b.o.Replicas)
	case replicas == 0 || b.o.Replicas > 0: // a master that is cut off from its replicas gets no acknowledgement
		return nil
	}
	all.Add(driver.Notice{ID: "replication",
		Text: fmt.Sprintf("Locks are copied to the server's replicas (%d) only after they are granted: "+
			"a fail-over can forget a lock that is held, and grant it again.", replicas),
		Remedy: "Check fencing tokens on every write. The option Replicas (URL: replicas=1) makes the loss rarer; " +
			"etcd and ZooKeeper exclude it."})
	if _, limited := info["min_slaves_good_slaves"]; !limited { // INFO has it only where min-replicas-to-write is not 0
		all.Add(driver.Notice{ID: "min-replicas",
			Text: "A master that is cut off from its replicas keeps granting and renewing locks (min-replicas-to-write is 0), while the replica " +
				"promoted in its place grants them too.",
			Remedy: "Set min-replicas-to-write 1 and min-replicas-max-lag 10: the cut-off master then stops after 10 s."})
	}
	return nil
}
