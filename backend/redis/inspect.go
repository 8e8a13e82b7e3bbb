package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// Inspect implements driver.Inspector. The server knows neither the token of a held lock nor when it was granted.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	locks, err := b.inspectLocks(ctx, []string{name})
	if err != nil {
		return driver.Status{Name: name}, err
	}
	if !locks[0].Held {
		permits, err := b.inspectBeside(ctx, []string{name}, 1)
		if err != nil || permits[0].Held || locks[0].Waiters == 0 {
			return permits[0], err
		}
	}
	return locks[0], nil
}

// inspectLocks returns the status of the locks of names.
func (b *Backend) inspectLocks(ctx context.Context, names []string) ([]driver.Status, error) {
	calls, all := make([][]any, len(names)), make([]driver.Status, len(names))
	for i, name := range names {
		calls[i] = redisscript.Inspect.Call(b.keysOf(b.layout.Key(name)))
	}
	for i, r := range b.pipe.RunAll(ctx, redisscript.Inspect, calls) {
		st, err := redisscript.Inspected(r)
		st.Name = names[i]
		if err == nil && st.Shared {
			var readers []driver.Status
			if readers, err = b.inspectBeside(ctx, names[i:i+1], 0); err == nil {
				st = readers[0]
			}
		}
		if err != nil {
			return all, err
		}
		all[i] = st
	}
	return all, nil
}

// inspectBeside returns the status of the permits of names or, if permits is 0, of their readers.
func (b *Backend) inspectBeside(ctx context.Context, names []string, permits int) ([]driver.Status, error) {
	calls, all := make([][]any, len(names)), make([]driver.Status, len(names))
	for i, name := range names {
		calls[i] = redisscript.InspectBeside.Call(b.besideKeys(b.layout.Key(name), permits), "", permits)
	}
	for i, r := range b.pipe.RunAll(ctx, redisscript.InspectBeside, calls) {
		st, err := besideStatus(names[i], permits == 0, r)
		if err != nil {
			return all, err
		}
		all[i] = st
	}
	return all, nil
}

// besideStatus converts the reply of beside_inspect.lua for name.
func besideStatus(name string, shared bool, r redisscript.Reply) (driver.Status, error) {
	reply, _ := r.Value.([]any)
	n := numbers(reply)
	if r.Err == nil && (n[0] < 0 || n[1] < 0) {
		r.Err = fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value)
	}
	if r.Err != nil || len(reply) < 4 { // no holder
		return driver.Status{Name: name, Waiters: int(n[1])}, r.Err
	}
	var all []driver.Status
	for holder := range slices.Chunk(reply[2:], 2) {
		st := driver.Status{Name: name, Held: true, Shared: shared, Permits: int(n[0]), Waiters: int(n[1])}
		st.Owner, _ = holder[0].(string)
		ms, _ := holder[1].(int64)
		st.Expires = time.Now().Add(time.Duration(ms) * time.Millisecond)
		all = append(all, st)
	}
	all[0].Others = all[1:]
	return all[0], nil
}

// List implements driver.Inspector. It scans all keys of the database, which takes a while on a server with many. A name whose lock and
// permits are both in use is listed twice.
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
		return nil, redisscript.Classify(err, false)
	}
	all, err := b.inspectLocks(ctx, slices.Collect(maps.Keys(locks)))
	if err != nil {
		return nil, err
	}
	beside, err := b.inspectBeside(ctx, slices.Collect(maps.Keys(permits)), 1)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(append(all, beside...), func(st driver.Status) bool { return !st.Held && st.Waiters <= 0 }), nil
}

// eachNode calls f for every node that has keys, one after another.
func (b *Backend) eachNode(ctx context.Context, f func(context.Context, goredis.Cmdable) error) error {
	cluster, ok := b.client.(*goredis.ClusterClient)
	if !ok {
		return f(ctx, b.client)
	}
	var one sync.Mutex
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error {
		one.Lock()
		defer one.Unlock()
		return f(ctx, node)
	})
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	lock := b.layout.Key(name)
	run := func(script *redisscript.Script, keys []string, argv ...any) (over bool, err error) {
		r := b.pipe.Run(ctx, script, script.Call(keys, argv...))
		return r.Err != nil || r.Value == int64(1), r.Err
	}
	for _, value := range redisscript.ValuesOf(owner) {
		if over, err := run(redisscript.Break, b.keysOf(lock), value); over {
			return err
		}
	}
	for permits := range 2 {
		if over, err := run(redisscript.Release.Beside(), b.besideKeys(lock, permits), owner, permits, flag(true)); over {
			return err
		}
	}
	return fmt.Errorf("%w: that owner no longer holds it", driver.ErrLost)
}
