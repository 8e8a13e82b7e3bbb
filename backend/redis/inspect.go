package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// Inspect implements driver.Inspector. The server knows neither the token of a held lock nor when it was granted.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	both, err := b.inspect(ctx, name)
	if err != nil {
		return driver.Status{Name: name}, err
	}
	lock, permits := both[0], both[1]
	if lock.Held || lock.Waiters > 0 && !permits.Held {
		return lock, nil
	}
	return permits, nil
}

// inspect returns the status of each name's lock and of its permits.
func (b *Backend) inspect(ctx context.Context, names ...string) (all []driver.Status, err error) {
	calls := make([]redisscript.Call, len(names))
	for i, name := range names {
		keys := b.layout.Keys(name)
		for _, what := range []string{readersKey, permitsQueueKey, permitsKey} {
			keys = append(keys, redisscript.Side(keys[0], what))
		}
		calls[i] = redisscript.Inspect.Call(keys)
	}
	for i, r := range b.pipe.RunAll(ctx, calls) {
		lock, permits, err := redisscript.Inspected(names[i], r)
		if err != nil {
			return nil, redisscript.Explain(b.addr(), err)
		}
		all = append(all, lock, permits)
	}
	return all, nil
}

// List implements driver.Inspector. It scans all keys of the database, which takes a while on a server with many. A name whose lock and
// permits are both in use is listed twice.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	names := make(map[string]bool)
	err := b.eachNode(ctx, func(ctx context.Context, node goredis.Cmdable) error {
		return b.layout.Scan(ctx, node, prefix, func(name string) { names[name] = true })
	})
	if err != nil {
		return nil, redisscript.Explain(b.addr(), err)
	}
	all, err := b.inspect(ctx, slices.Collect(maps.Keys(names))...)
	return slices.DeleteFunc(all, func(st driver.Status) bool { return !st.Held && st.Waiters <= 0 }), err
}

// eachNode calls f for every node that has keys, one after another. It returns soon after ctx ends; see redisscript.Guard.
func (b *Backend) eachNode(ctx context.Context, f func(context.Context, goredis.Cmdable) error) error {
	return redisscript.Guard(ctx, func() error {
		cluster, ok := b.pipe.Client.(*goredis.ClusterClient)
		if !ok {
			return f(ctx, b.pipe.Client)
		}
		var one sync.Mutex
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error {
			one.Lock()
			defer one.Unlock()
			return f(ctx, node)
		})
	})
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	var calls []redisscript.Call
	for _, value := range redisscript.ValuesOf(owner) {
		calls = append(calls, redisscript.Break.Call(b.keysOf(name), value))
	}
	for permits := range 2 {
		calls = append(calls, redisscript.BreakBeside.Call(b.besideKeys(name, permits), owner, permits, true))
	}
	for _, call := range calls {
		if r := b.pipe.Run(ctx, call); r.Err != nil || r.Value == int64(1) {
			return r.Err
		}
	}
	return fmt.Errorf("%w: that owner no longer holds it", driver.ErrLost)
}
