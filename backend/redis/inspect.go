package redis

import (
	"context"
	"fmt"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redischeck"
	"github.com/lockport/lockport/internal/redisscript"
)

// Inspect implements driver.Inspector. The server does not know the token of a lock that is held, nor since when it is.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	keys := b.keysOf(b.layout.Key(name))
	r := b.pipe.Run(ctx, redisscript.Inspect, redisscript.Inspect.Call(keys.own()), false)
	r.Err = redischeck.Explain(r.Err)
	return status(name, r)
}

// status makes a status of what inspect.lua replied.
func status(name string, r redisscript.Reply) (driver.Status, error) {
	st, err := redisscript.Inspected(r)
	st.Name = name
	return st, err
}

// List implements driver.Inspector. It walks through all keys of the database: on a server with many others it takes its time.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	start := b.layout.Prefix
	if prefix != "" {
		start = b.layout.Key(prefix)
	}
	pattern := redisscript.GlobEscape(start) + "*"
	found := make(map[string]bool)
	err := redisscript.Guard(ctx, func() error {
		return b.eachNode(ctx, func(ctx context.Context, node goredis.Cmdable) error {
			return redisscript.ScanLocks(ctx, node, pattern, queueKey, func(key string) { found[key] = true })
		})
	})
	if err != nil {
		return nil, redischeck.Explain(err)
	}
	var names []string
	var calls [][]any
	for key := range found {
		if name, ok := b.layout.Name(key); ok {
			names, calls = append(names, name), append(calls, redisscript.Inspect.Call(b.keysOf(key).own()))
		}
	}
	var all []driver.Status
	for i, r := range b.pipe.RunAll(ctx, redisscript.Inspect, calls, false) {
		st, err := status(names[i], r)
		if err != nil {
			return nil, err
		}
		if st.Held || st.Waiters > 0 {
			all = append(all, st)
		}
	}
	return all, nil
}

// eachNode calls f for every node that has keys, one after the other.
func (b *Backend) eachNode(ctx context.Context, f func(context.Context, goredis.Cmdable) error) error {
	var nodes []goredis.Cmdable
	if cluster, ok := b.client.(*goredis.ClusterClient); ok {
		var mu sync.Mutex
		err := cluster.ForEachMaster(ctx, func(_ context.Context, node *goredis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, node)
			return nil
		})
		if err != nil {
			return err
		}
	} else {
		nodes = append(nodes, b.client)
	}
	for _, node := range nodes {
		if err := f(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	keys := b.keysOf(b.layout.Key(name))
	values := []string{redisscript.Value(owner), owner}
	if owner == redisscript.NotAString {
		values = []string{""}
	}
	for _, value := range values {
		r := b.pipe.Run(ctx, redisscript.Break, redisscript.Break.Call(keys.own(), value), false)
		if r.Err != nil {
			return r.Err
		}
		if r.Value == int64(1) {
			return nil
		}
	}
	return fmt.Errorf("%w: that owner no longer has it", driver.ErrLost)
}
