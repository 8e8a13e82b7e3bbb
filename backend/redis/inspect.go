package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redischeck"
	"github.com/lockport/lockport/internal/redisscript"
)

// Inspect implements driver.Inspector. The server does not know the token of a lock that is held, nor since when it is.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	locks, err := b.inspectLocks(ctx, []string{name})
	if err != nil {
		return driver.Status{Name: name}, err
	}
	if !locks[0].Held {
		permits, err := b.inspectBeside(ctx, []string{name}, false)
		if err != nil || permits[0].Held || locks[0].Waiters == 0 {
			return permits[0], err
		}
	}
	return locks[0], nil
}

// inspectLocks looks at the locks of names.
func (b *Backend) inspectLocks(ctx context.Context, names []string) ([]driver.Status, error) {
	all, err := b.inspectAll(ctx, names, redisscript.Inspect, func(lock string) []any {
		return redisscript.Inspect.Call(b.keysOf(lock).own())
	}, func(name string, r redisscript.Reply) (driver.Status, error) {
		st, err := redisscript.Inspected(r)
		st.Name = name
		return st, err
	})
	var shared []string
	var at []int
	for i, st := range all {
		if st.Shared {
			shared, at = append(shared, st.Name), append(at, i)
		}
	}
	if err != nil || len(shared) == 0 {
		return all, err
	}
	readers, err := b.inspectBeside(ctx, shared, true)
	for i, st := range readers {
		all[at[i]] = st
	}
	return all, err
}

// inspectBeside looks at the readers of names, or at their permits.
func (b *Backend) inspectBeside(ctx context.Context, names []string, shared bool) ([]driver.Status, error) {
	permits := 1
	if shared {
		permits = 0
	}
	return b.inspectAll(ctx, names, redisscript.InspectBeside, func(lock string) []any {
		return redisscript.InspectBeside.Call(b.besideKeys(lock, permits), "", permits)
	}, func(name string, r redisscript.Reply) (driver.Status, error) {
		return besideStatus(name, shared, r)
	})
}

// inspectAll asks a script about names, by the calls that call makes for their locks, and reads what it replies for each.
func (b *Backend) inspectAll(ctx context.Context, names []string, script *redisscript.Script, call func(lock string) []any,
	read func(name string, r redisscript.Reply) (driver.Status, error)) ([]driver.Status, error) {
	calls, all := make([][]any, len(names)), make([]driver.Status, len(names))
	for i, name := range names {
		calls[i] = call(b.layout.Key(name))
	}
	for i, r := range b.pipe.RunAll(ctx, script, calls, false) {
		r.Err = redischeck.Explain(r.Err)
		st, err := read(names[i], r)
		if err != nil {
			return all, err
		}
		all[i] = st
	}
	return all, nil
}

// List implements driver.Inspector. It walks through all keys of the database: on a server with many others it takes its time. A name whose lock and
// permits are both in use is in the list twice.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	start := b.layout.Prefix
	if prefix != "" {
		start = b.layout.Key(prefix)
	}
	pattern := redisscript.GlobEscape(start) + "*"
	locks, permits := make(map[string]bool), make(map[string]bool)
	into := func(names map[string]bool) func(key string) {
		return func(key string) {
			if name, ok := b.layout.Name(key); ok {
				names[name] = true
			}
		}
	}
	err := redisscript.Guard(ctx, func() error {
		return b.eachNode(ctx, func(ctx context.Context, node goredis.Cmdable) error {
			if err := redisscript.ScanLocks(ctx, node, pattern, queueKey, into(locks)); err != nil {
				return err
			}
			if err := redisscript.ScanSides(ctx, node, pattern, permitsKey, into(permits)); err != nil {
				return err
			}
			return redisscript.ScanSides(ctx, node, pattern, permitsQueueKey, into(permits))
		})
	})
	if err != nil {
		return nil, redischeck.Explain(err)
	}
	all, err := b.inspectLocks(ctx, slices.Collect(maps.Keys(locks)))
	if err != nil {
		return nil, err
	}
	beside, err := b.inspectBeside(ctx, slices.Collect(maps.Keys(permits)), false)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(append(all, beside...), func(st driver.Status) bool { return !st.Held && st.Waiters <= 0 }), nil
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
	for permits := range 2 {
		r := b.pipe.Run(ctx, redisscript.ReleaseBeside, redisscript.ReleaseBeside.Call(b.besideKeys(keys.lock, permits), owner, permits, flag(true)), false)
		if r.Err != nil {
			return r.Err
		}
		if r.Value == int64(1) {
			return nil
		}
	}
	return fmt.Errorf("%w: that owner no longer has it", driver.ErrLost)
}
