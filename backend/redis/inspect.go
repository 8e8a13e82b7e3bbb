package redis

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// notAString is the owner that Inspect gives of a key of another type: Redisson's locks are hashes.
const notAString = "(a foreign value that is no string)"

// Inspect implements driver.Inspector. Since is the server's clock at the time of the grant, as the token has it.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	keys := makeKeys(b.layout.Key(name))
	r := b.server.Run(ctx, keys.lock, inspectScript, keys.args(inspectScript), false)
	return status(name, r)
}

// status makes a status of what inspect.lua replied.
func status(name string, r redisscript.Reply) (driver.Status, error) {
	st := driver.Status{Name: name}
	if r.Err != nil {
		return st, r.Err
	}
	var ttl, waiting int64
	reply, _ := r.Value.([]any)
	if len(reply) != 5 || !scan(reply[2:3], &ttl) || !scan(reply[4:], &waiting) {
		return st, fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value)
	}
	st.Waiters = int(waiting)
	switch reply[0] {
	case "none":
		return st, nil
	case "string":
		value, _ := reply[1].(string)
		st.Owner, st.Foreign = redisscript.Owner(value)
	default:
		st.Owner, st.Foreign = notAString, true
	}
	st.Held = true
	now := time.Now()
	if ttl >= 0 {
		st.Expires = now.Add(time.Duration(ttl) * time.Millisecond)
	}
	if text, ok := reply[3].(string); ok && !st.Foreign {
		if token, err := strconv.ParseUint(text, 10, 53); err == nil {
			st.Token = token
			if since := time.UnixMicro(int64(token)); since.Before(now) {
				st.Since = since
			}
		}
	}
	return st, nil
}

const scanCount = 1000 // keys that Redis looks at for one request

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
			return scanKeys(ctx, node, pattern, func(key string) { found[key] = true })
		}, func(ctx context.Context, node goredis.Cmdable) error {
			return scanKeys(ctx, node, redisscript.Side(pattern, queueKey), func(side string) {
				if key, ok := redisscript.SideOf(side, queueKey); ok {
					found[key] = true
				}
			})
		})
	})
	if err != nil {
		return nil, redisscript.Classify(err, false)
	}
	var names, slots []string
	var calls [][]any
	for key := range found {
		if name, ok := b.layout.Name(key); ok {
			keys := makeKeys(key)
			names, slots, calls = append(names, name), append(slots, key), append(calls, keys.args(inspectScript))
		}
	}
	var all []driver.Status
	for i, r := range b.server.RunAll(ctx, slots, inspectScript, calls, false) {
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

// eachNode calls each of the functions for every node that has keys, one after the other.
func (b *Backend) eachNode(ctx context.Context, do ...func(context.Context, goredis.Cmdable) error) error {
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
		for _, f := range do {
			if err := f(ctx, node); err != nil {
				return err
			}
		}
	}
	return nil
}

func scanKeys(ctx context.Context, node goredis.Cmdable, pattern string, found func(string)) error {
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			found(key)
		}
		if cursor = next; cursor == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	keys := makeKeys(b.layout.Key(name))
	values := []string{redisscript.Value(owner), owner}
	if owner == notAString {
		values = []string{""}
	}
	for _, value := range values {
		r := b.server.Run(ctx, keys.lock, breakScript, keys.args(breakScript, value), false)
		if r.Err != nil {
			return r.Err
		}
		if r.Value == int64(1) {
			return nil
		}
	}
	return fmt.Errorf("%w: that owner no longer has it", driver.ErrLost)
}
