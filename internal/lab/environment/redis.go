package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

const redisTTL = 2 * time.Second

// redisNotice bounds how long the holder of a removed claim believes in it: until its next renewal.
func redisNotice(ttl time.Duration) time.Duration { return ttl/3 + 100*time.Millisecond }

// redisOf is an environment of Redis servers.
func redisOf(name, title string, start func(ctx context.Context) (Servers, error)) Environment {
	return Environment{
		Name: name, Title: title, Backend: "redis", TTL: redisTTL, Margin: marginOf(redisTTL), Tokens: true,
		RemovalNotice: redisNotice(redisTTL), Needs: []string{"redis"}, Start: start,
	}
}

// redisEnvironment writes every change to its disk before it acknowledges it.
var redisEnvironment = redisOf("redis", "one Redis that keeps its data", func(ctx context.Context) (Servers, error) {
	s, err := servers.StartRedis(ctx, servers.RedisOptions{AppendOnly: true, Clock: servers.ClockInstalled() == nil})
	if err != nil {
		return nil, err
	}
	return &Redis{redisKeys{base: baseOf("one Redis", s), all: []*servers.Redis{s}, do: s.Do}, s}, nil
})

// Redis is one Redis server.
type Redis struct {
	redisKeys
	server *servers.Redis
}

// Do runs a command.
func (r *Redis) Do(ctx context.Context, args ...any) (any, error) { return r.server.Do(ctx, args...) }

// URL implements Servers.
func (r *Redis) URL(addrs []string) string { return redisURL(addrs, "") }

// Restart implements Servers.
func (r *Redis) Restart(ctx context.Context, keepData bool) error { return r.restart(ctx, keepData) }

// redisURL names one server.
func redisURL(addrs []string, query string) string { return "redis://" + addrs[0] + "/0" + query }

// Heal restores the settings that the server had at its start. Its clock stays as it is: set right while locks are held, it would jump once more.
func (r *Redis) Heal(ctx context.Context) error {
	reset := func(ctx context.Context) error {
		return r.Set(ctx, "maxmemory", 0, "maxmemory-policy", "noeviction", "save", "")
	}
	return inOrder(ctx, r.base.Heal, reset, r.SaveAgain)
}

// Set changes settings, each a name and a value, until the server is restarted.
func (r *Redis) Set(ctx context.Context, settings ...any) error {
	_, err := r.Do(ctx, append([]any{"CONFIG", "SET"}, settings...)...)
	return err
}

// snapshot is the file of the server's snapshots.
func (r *Redis) snapshot() string { return filepath.Join(r.server.Dir(), "data", "dump.rdb") }

// FailToSave puts a folder where the snapshot is to go, so that saving it fails at the last step, as on a full disk.
func (r *Redis) FailToSave(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(r.snapshot()), os.Mkdir(r.snapshot(), 0o700), r.saves(ctx, "err")); err != nil {
		return err
	}
	return r.Set(ctx, "save", "3600 1") // a server that need not save anything does not mind
}

// SaveAgain ends FailToSave.
func (r *Redis) SaveAgain(ctx context.Context) error {
	if info, err := os.Stat(r.snapshot()); err == nil && info.IsDir() {
		if err := os.Remove(r.snapshot()); err != nil {
			return err
		}
	}
	return r.saves(ctx, "ok")
}

// saves makes the server try to save a snapshot until that ends with the status ("ok", "err").
func (r *Redis) saves(ctx context.Context, status string) error {
	return Eventually(ctx, func(ctx context.Context) error {
		info, err := r.server.Info(ctx, "persistence")
		if err != nil {
			return err
		}
		if got := info["rdb_last_bgsave_status"]; got != status {
			_, _ = r.Do(ctx, "BGSAVE") // which refuses while it is under way
			return fmt.Errorf("the last snapshot is %q, not %q", got, status)
		}
		return nil
	})
}

// RedisKey is the key of a lock on Redis.
func RedisKey(name string) string {
	return redisscript.Layout{Prefix: redisscript.DefaultPrefix}.Key(name)
}

// redisKeys are locks as keys of Redis servers.
type redisKeys struct {
	base
	all []*servers.Redis
	// do runs a command where the keys are.
	do func(ctx context.Context, args ...any) (any, error)
	// quorum is how many nodes must keep an entry of a queue for that to count. Default: one.
	quorum int
}

// Remove implements Servers.
func (k *redisKeys) Remove(ctx context.Context, name string) error {
	_, err := k.do(ctx, "DEL", RedisKey(name))
	return err
}

// Overwrite implements Servers.
func (k *redisKeys) Overwrite(ctx context.Context, name string) error {
	_, err := k.do(ctx, "SET", RedisKey(name), "somebody-else", "PX", time.Hour.Milliseconds())
	return err
}

// onRunning calls f for all servers that run, at the same time.
func (k *redisKeys) onRunning(f func(n *servers.Redis) error) error {
	return AtOnce(k.all, func(n *servers.Redis) error {
		if n.Thaw() != nil {
			return nil // it is down
		}
		return f(n)
	})
}

// restart restarts all servers that run.
func (k *redisKeys) restart(ctx context.Context, keepData bool) error {
	return k.onRunning(func(n *servers.Redis) error {
		if !keepData {
			if _, err := n.Do(ctx, "FLUSHALL"); err != nil {
				return err
			}
		}
		return inOrder(ctx, now(n.Stop), n.Restart)
	})
}

// Leftovers implements Servers. Counters of tokens stay on purpose.
func (k *redisKeys) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	at := make(map[string]int)
	for _, node := range k.all {
		if node.Thaw() != nil {
			continue // it is down
		}
		reply, err := node.Do(ctx, "KEYS", "*"+redisscript.GlobEscape(RedisKey(prefix))+"*")
		if err != nil {
			return nil, err
		}
		keys, _ := reply.([]any)
		for _, one := range keys {
			key := fmt.Sprint(one)
			if _, token := redisscript.SideOf(key, "token"); token {
				continue
			}
			if isQueue(key) { // which remembers an abandoned claim for its minute
				if n, err := node.Do(ctx, "ZCOUNT", key, "-inf", "(4000000000000000"); err != nil || n == int64(0) {
					continue
				}
			}
			at[key]++
		}
	}
	for key, nodes := range at {
		// A node that could not be reached when a claim was given up keeps its place in the queue for up to 30 s, as Redlock's page says. A majority must
		// not keep it.
		if !isQueue(key) || nodes >= k.quorum {
			left = append(left, fmt.Sprintf("%s at %d nodes", key, nodes))
		}
	}
	return left, nil
}

func isQueue(key string) bool {
	_, is := redisscript.SideOf(key, "queue")
	return is
}

// RedisSentinel is a master with a replica and three Sentinels.
type RedisSentinel struct {
	redisKeys
	*servers.Sentinel
}

// redisSentinel has a TTL that is longer than a fail-over takes: otherwise a holder that the new master has forgotten has ended before there is one.
var redisSentinel = func() Environment {
	const ttl = 8 * time.Second
	e := redisOf("redis-sentinel", "Redis with a replica and three Sentinels", func(ctx context.Context) (Servers, error) {
		// Later than a busy machine stalls a healthy master, which would be replaced while it lives.
		set, err := servers.StartSentinel(ctx, servers.SentinelOptions{DownAfter: 2 * time.Second})
		if err != nil {
			return nil, err
		}
		do := func(ctx context.Context, args ...any) (any, error) {
			master, err := set.Master(ctx)
			if err != nil {
				return nil, err
			}
			return master.Do(ctx, args...)
		}
		return &RedisSentinel{hiddenKeys("Redis with Sentinels", set.Nodes, do), set}, nil
	})
	e.TTL, e.Margin, e.RemovalNotice = ttl, marginOf(ttl), redisNotice(ttl)
	return e
}()

// hiddenKeys are those of servers that clients find by themselves.
func hiddenKeys(what string, nodes []*servers.Redis, do func(ctx context.Context, args ...any) (any, error)) redisKeys {
	return redisKeys{base: hiddenOf(what, nodes...), all: nodes, do: do}
}

// Nodes implements Servers.
func (s *RedisSentinel) Nodes() []Node { return nil }

// Addrs implements Servers.
func (s *RedisSentinel) Addrs() []string { return nil }

// URL implements Servers.
func (s *RedisSentinel) URL([]string) string { return s.Sentinel.URL() }

// Heal implements Servers.
func (s *RedisSentinel) Heal(ctx context.Context) error { return s.Mend(ctx) }

// redisCluster is a Redis Cluster, whose nodes tell clients their own addresses.
var redisCluster = redisOf("redis-cluster", "a Redis Cluster", func(ctx context.Context) (Servers, error) {
	c, err := servers.StartCluster(ctx, servers.RedisOptions{})
	if err != nil {
		return nil, err
	}
	do := func(ctx context.Context, args ...any) (reply any, err error) { // on the node that has the key
		for _, node := range c.Nodes {
			if reply, err = node.Do(ctx, args...); err == nil || !strings.Contains(err.Error(), "MOVED ") {
				break
			}
		}
		return reply, err
	}
	return &clusterOfRedis{hiddenKeys("a Redis Cluster", c.Nodes, do), c.Addrs()}, nil
})

type clusterOfRedis struct {
	redisKeys
	addrs []string
}

func (c *clusterOfRedis) URL([]string) string {
	return "redis+cluster://" + c.addrs[0] + "?addr=" + strings.Join(c.addrs[1:], "&addr=")
}

// redlockEnvironment is five servers that know nothing of each other and keep nothing on disk. For the suite there are some that keep their data when they are
// stopped: not by a write to the disk for every change, at which five on one machine are slow.
var (
	redlockEnvironment = redlockOf("redlock", "five Redis under Redlock, without persistence", 5, servers.RedisOptions{})
	redlockSaving      = redlockOf("redlock-saving", "five Redis under Redlock that save their data", 5, servers.RedisOptions{Save: "3600 1"})
	redlockOfThree     = redlockOf("redlock-three", "three Redis under Redlock that save their data", 3, servers.RedisOptions{Save: "3600 1"})
)

func redlockOf(name, title string, n int, o servers.RedisOptions) Environment {
	e := redisOf(name, title, func(ctx context.Context) (Servers, error) {
		o := o
		o.Clock = o.Save == "" && servers.ClockInstalled() == nil // it runs a compiler, so not before it is needed
		r := &redlock{redisKeys{base: base{what: title}, quorum: n/2 + 1}}
		for range n {
			node, err := servers.StartRedis(ctx, o)
			if err != nil {
				return nil, errors.Join(err, r.Close())
			}
			r.all, r.nodes = append(r.all, node), append(r.nodes, node)
		}
		r.do = func(ctx context.Context, args ...any) (any, error) { // on all that run
			return nil, r.onRunning(func(n *servers.Redis) error { _, err := n.Do(ctx, args...); return err })
		}
		return r, nil
	})
	e.Backend, e.Tokens, e.Margin = "redlock", false, marginOf(redisTTL)+redisTTL/100+2*time.Millisecond
	return e
}

// redlock is several Redis servers that vote. Heal leaves their clocks as they are.
type redlock struct{ redisKeys }

func (r *redlock) URL(addrs []string) string { return "redlock://" + strings.Join(addrs, ",") + "/0" }

func (r *redlock) Restart(ctx context.Context, keepData bool) error { return r.restart(ctx, keepData) }
