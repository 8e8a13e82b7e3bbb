package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

// Redis is one Redis server, or several.
type Redis struct {
	base
	// Members are the servers.
	Members []*servers.Redis
	// Do runs a command on the server that has the locks, or on all that do.
	Do func(ctx context.Context, args ...any) (any, error)
	// quorum is how many nodes must keep an entry of a queue before it counts as a leftover.
	quorum int
}

func redisOf(url func() string, all *servers.Set, nodes ...*servers.Redis) *Redis {
	return &Redis{base: baseOf(url, all), Members: nodes, Do: nodes[0].Do}
}

// startRedis starts a server that syncs every change to disk before it acknowledges it. Heal restores the initial settings, but not the clock:
// setting it right while locks are held would be another jump.
var startRedis = starts(servers.StartRedis, servers.RedisOptions{Config: []string{"appendonly yes", "appendfsync always"}, Clock: true},
	func(s *servers.Redis) *Redis {
		r := redisOf(s.URL, servers.SetOf(s.Server), s)
		r.restarts, r.forgets = true, true
		r.reset = func(ctx context.Context) error {
			return errors.Join(r.ConfigSet(ctx, "maxmemory", 0, "maxmemory-policy", "noeviction", "save", ""), r.SaveAgain(ctx))
		}
		return r
	})

// startCluster starts a Redis Cluster, whose nodes announce their own addresses to clients.
var startCluster = starts(servers.StartCluster, servers.RedisOptions{}, func(c *servers.Group[*servers.Redis]) *Redis {
	r := redisOf(c.URL, &c.Set, c.Nodes...)
	r.Do = func(ctx context.Context, args ...any) (reply any, err error) { // on the node that has the key
		for _, node := range c.Nodes {
			if reply, err = node.Do(ctx, args...); err == nil || !strings.Contains(err.Error(), "MOVED ") {
				break
			}
		}
		return reply, err
	}
	return r
})

// startVoters starts n independent servers for Redlock with more lines of configuration. Servers without such lines get private clocks.
func startVoters(n int, config ...string) starter {
	o := servers.RedisOptions{Config: config, Clock: len(config) == 0}
	return starts(servers.StartVoters(n), o, func(voters *servers.Group[*servers.Redis]) *Redis {
		r := redisOf(voters.URL, &voters.Set, voters.Nodes...)
		r.quorum, r.restarts, r.forgets = n/2+1, true, true
		r.Do = func(ctx context.Context, args ...any) (any, error) { // on all running servers
			return nil, AtOnce(r.Members, func(node *servers.Redis) error {
				if isDown(node.Server) {
					return nil
				}
				_, err := node.Do(ctx, args...)
				return err
			})
		}
		return r
	})
}

// ConfigSet changes settings, given as names and values, until the server restarts.
func (r *Redis) ConfigSet(ctx context.Context, settings ...any) error {
	_, err := r.Do(ctx, append([]any{"CONFIG", "SET"}, settings...)...)
	return err
}

// FailToSave makes the snapshot folder read-only, so that saving fails as on a full disk.
func (r *Redis) FailToSave(ctx context.Context) error {
	return errors.Join(r.saves(ctx, 0o500, "err"), r.ConfigSet(ctx, "save", "3600 1")) // without a save rule, Redis ignores the failure
}

// SaveAgain undoes FailToSave.
func (r *Redis) SaveAgain(ctx context.Context) error { return r.saves(ctx, 0o700, "ok") }

// saves makes the server attempt snapshots until one ends with the status ("ok", "err").
func (r *Redis) saves(ctx context.Context, mode os.FileMode, status string) error {
	if err := os.Chmod(filepath.Join(r.Members[0].Dir(), "data"), mode); err != nil {
		return err
	}
	return servers.Poll(ctx, func(ctx context.Context) error {
		info, err := r.Members[0].Info(ctx, "persistence")
		if got := info["rdb_last_bgsave_status"]; err == nil && got != status {
			_, _ = r.Do(ctx, "BGSAVE") // refused while another one runs
			err = fmt.Errorf("the last snapshot is %q, not %q", got, status)
		}
		return err
	})
}

// RedisKey returns the key of a lock on Redis.
func RedisKey(name string) string {
	return redisscript.Layout{Prefix: redisscript.DefaultPrefix}.Key(name)
}

// Remove implements Locks. On several voters it spares the votes of a waiter that gets the lock meanwhile.
func (r *Redis) Remove(ctx context.Context, name string) error {
	key, votes := RedisKey(name), make(map[any]int)
	for _, node := range r.Members {
		if r.quorum == 0 || isDown(node.Server) {
			continue
		}
		holder, _ := node.Do(ctx, "GET", key)
		if votes[holder]++; holder != nil && votes[holder] == r.quorum {
			_, err := r.Do(ctx, "EVAL", "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])", 1, key, holder)
			return err
		}
	}
	_, err := r.Do(ctx, "DEL", key)
	return err
}

// Overwrite implements Locks.
func (r *Redis) Overwrite(ctx context.Context, name string) error {
	_, err := r.Do(ctx, "SET", RedisKey(name), "somebody-else", "PX", time.Hour.Milliseconds())
	return err
}

// Leftovers implements Locks. If a node was unreachable when a claim was abandoned, it keeps the claim's queue entry for up to 30 s, as Redlock's
// page says. So an entry counts only if a quorum of nodes keeps it.
func (r *Redis) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	at := make(map[string]int)
	for _, node := range r.Members {
		if isDown(node.Server) {
			continue
		}
		reply, err := node.Do(ctx, "KEYS", "*"+redisscript.GlobEscape(RedisKey(prefix))+"*")
		if err != nil {
			return nil, err
		}
		keys, _ := reply.([]any)
		for _, one := range keys {
			key := fmt.Sprint(one)
			if !isQueue(key) || !remembered(ctx, node, key) {
				at[key]++
			}
		}
	}
	for key, nodes := range at {
		if !isQueue(key) || nodes >= r.quorum {
			left = append(left, fmt.Sprintf("%s at %d nodes", key, nodes))
		}
	}
	return left, nil
}

// isQueue reports whether a key is the queue of a lock or of permits.
func isQueue(key string) bool {
	return redisscript.LockOf(key) != key && strings.HasSuffix(key, redisscript.QueueKey)
}

// remembered reports whether a queue stays on purpose: it has nothing but abandoned claims, which are kept for a minute.
func remembered(ctx context.Context, node *servers.Redis, queue string) bool {
	n, err := node.Do(ctx, "ZCOUNT", queue, "-inf", "(4000000000000000")
	return err == nil && n == int64(0)
}

// RedisPair is a master and its replica, without persistence. The replica is promoted by hand, as in managed services.
type RedisPair struct {
	*Redis
	Master, Replica *servers.Redis
	// Link is the replica's link to the master. Only a proxy cuts it silently: a master that refused its replica would count none, and a client that
	// requires one could not even open.
	Link *faultproxy.Proxy
}

// startRedisPair starts a pair. With replicas=1 in query, every grant and renewal waits for the replica's acknowledgement.
func startRedisPair(query string) starter {
	return func(ctx context.Context) (Servers, error) {
		master, replica, err := startMasterAndReplica(ctx)
		if err != nil {
			return nil, err
		}
		p := &RedisPair{Master: master, Replica: replica}
		p.Redis = redisOf(func() string { return p.Master.URL() + query }, servers.SetOf(master.Server, replica.Server), master, replica)
		p.Do = func(ctx context.Context, args ...any) (any, error) { return p.Master.Do(ctx, args...) }
		if p.Link, err = faultproxy.New(master.Addr()); err != nil {
			return nil, errors.Join(err, p.Redis.Close())
		}
		p.reset = p.Follow
		if err := p.Follow(ctx); err != nil {
			return nil, errors.Join(err, p.Close())
		}
		return p, nil
	}
}

func startMasterAndReplica(ctx context.Context) (master, replica *servers.Redis, err error) {
	if master, err = servers.StartRedis(ctx, servers.RedisOptions{}); err != nil {
		return nil, nil, err
	}
	if replica, err = servers.StartReplica(ctx, master); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, replica, nil
}

// Promote implements Pair. The old master is now Replica, but does not know it until Follow. If it is down, it stays so: clients that still connect
// there would find a replica.
func (p *RedisPair) Promote(ctx context.Context) error {
	if err := p.Replica.Promote(ctx); err != nil {
		return err
	}
	p.Master, p.Replica = p.Replica, p.Master
	slices.Reverse(p.Servers)
	return nil
}

// Follow restarts the replica if needed and makes it replicate the master.
func (p *RedisPair) Follow(ctx context.Context) error {
	p.Link.Restore()
	if err := errors.Join(Revive(ctx, p.Replica.Server), p.Link.Retarget(p.Master.Addr())); err != nil {
		return err
	}
	return p.Replica.Follow(ctx, p.Master, p.Link.Addr())
}

// Lag implements Pair.
func (p *RedisPair) Lag(context.Context) error { p.Link.Freeze(); return nil }

// Close implements Servers.
func (p *RedisPair) Close() error {
	return errors.Join(p.Link.Close(), p.Redis.Close())
}
