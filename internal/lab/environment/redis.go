package environment

import (
	"context"
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
	r := &Redis{group: group[*servers.Redis]{s}, Redis: s}
	r.redisKeys = redisKeys{absent: absent{"one Redis"}, nodes: r.group, do: s.Do}
	return r, nil
})

// Redis is one Redis server.
type Redis struct {
	redisKeys
	group[*servers.Redis]
	*servers.Redis
}

// URL implements Servers.
func (r *Redis) URL(addrs []string) string { return redisURL(addrs, "") }

// redisURL names one server.
func redisURL(addrs []string, query string) string { return "redis://" + addrs[0] + "/0" + query }

// Restart implements Servers.
func (r *Redis) Restart(ctx context.Context, keepData bool) error {
	return restartRedis(ctx, r.Redis, keepData)
}

func restartRedis(ctx context.Context, s *servers.Redis, keepData bool) error {
	if !keepData {
		if _, err := s.Do(ctx, "FLUSHALL"); err != nil {
			return err
		}
	}
	if err := s.Stop(); err != nil {
		return err
	}
	return s.Restart(ctx)
}

// Heal restores the settings that the server had at its start. Its clock stays as it is: set right while locks are held, it would jump once more.
func (r *Redis) Heal(ctx context.Context) error {
	if err := Revive(ctx, r.Redis); err != nil {
		return err
	}
	if err := r.Set(ctx, "maxmemory", 0, "maxmemory-policy", "noeviction", "save", ""); err != nil {
		return err
	}
	return r.SaveAgain(ctx)
}

// Set changes settings, each a name and a value, until the server is restarted.
func (r *Redis) Set(ctx context.Context, settings ...any) error {
	_, err := r.Do(ctx, append([]any{"CONFIG", "SET"}, settings...)...)
	return err
}

// snapshot is the file of the server's snapshots.
func (r *Redis) snapshot() string { return filepath.Join(r.Dir(), "dump.rdb") }

// FailToSave puts a folder where the snapshot is to go, so that saving it fails at the last step, as on a full disk.
func (r *Redis) FailToSave(ctx context.Context) error {
	if err := os.RemoveAll(r.snapshot()); err != nil {
		return err
	}
	if err := os.Mkdir(r.snapshot(), 0o700); err != nil {
		return err
	}
	if err := r.saves(ctx, "err"); err != nil {
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
		info, err := r.Info(ctx, "persistence")
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
	absent
	nodes []*servers.Redis
	// do runs a command where the keys are.
	do func(ctx context.Context, args ...any) (any, error)
	// quorum is how many nodes must keep an entry of a queue for that to count. Default: one.
	quorum int
}

// Remove implements Servers.
func (k redisKeys) Remove(ctx context.Context, name string) error {
	_, err := k.do(ctx, "DEL", RedisKey(name))
	return err
}

// Overwrite implements Servers.
func (k redisKeys) Overwrite(ctx context.Context, name string) error {
	_, err := k.do(ctx, "SET", RedisKey(name), "somebody-else", "PX", time.Hour.Milliseconds())
	return err
}

// Leftovers implements Servers. Counters of tokens stay on purpose.
func (k redisKeys) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	at := make(map[string]int)
	for _, node := range k.nodes {
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
		return &RedisSentinel{redisKeys{absent: absent{"Redis with Sentinels"}, nodes: set.Nodes, do: do}, set}, nil
	})
	e.TTL, e.Margin, e.RemovalNotice = ttl, marginOf(ttl), redisNotice(ttl)
	return e
}()

// Addrs implements Servers: Sentinels tell clients the master's own address, so that no proxy can be between.
func (s *RedisSentinel) Addrs() []string { return nil }

// URL implements Servers.
func (s *RedisSentinel) URL([]string) string { return s.Sentinel.URL() }

// Nodes implements Servers.
func (s *RedisSentinel) Nodes() []Node { return nil }

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
	return &redisClusterServers{redisKeys{absent: absent{"a Redis Cluster"}, nodes: c.Nodes, do: do}, c}, nil
})

type redisClusterServers struct {
	redisKeys
	*servers.Cluster
}

func (c *redisClusterServers) Addrs() []string { return nil }

func (c *redisClusterServers) URL([]string) string {
	addrs := c.Cluster.Addrs()
	return "redis+cluster://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=")
}

func (c *redisClusterServers) Heal(ctx context.Context) error { return Revive(ctx, c.Cluster.Nodes...) }

func (c *redisClusterServers) Nodes() []Node { return nil }
