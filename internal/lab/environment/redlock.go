package environment

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/servers"
)

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
		r := &Redlock{}
		for range n {
			node, err := servers.StartRedis(ctx, o)
			if err != nil {
				return nil, errors.Join(err, r.Close())
			}
			r.group = append(r.group, node)
		}
		r.redisKeys = redisKeys{absent: absent{title}, nodes: r.group, do: r.everywhere, quorum: n/2 + 1}
		return r, nil
	})
	e.Backend, e.Tokens, e.Margin = "redlock", false, marginOf(redisTTL)+redisTTL/100+2*time.Millisecond
	return e
}

// Redlock is several Redis servers that vote.
type Redlock struct {
	redisKeys
	group[*servers.Redis]
}

// All are the servers.
func (r *Redlock) All() []*servers.Redis { return r.group }

// everywhere runs a command on all nodes that run.
func (r *Redlock) everywhere(ctx context.Context, args ...any) (any, error) {
	return nil, r.each(func(n *servers.Redis) error { _, err := n.Do(ctx, args...); return err })
}

func (r *Redlock) each(f func(n *servers.Redis) error) error {
	return AtOnce(r.group, func(n *servers.Redis) error {
		if n.Thaw() != nil {
			return nil // it is down
		}
		return f(n)
	})
}

// URL implements Servers.
func (r *Redlock) URL(addrs []string) string { return "redlock://" + strings.Join(addrs, ",") + "/0" }

// Restart implements Servers, for all nodes that run.
func (r *Redlock) Restart(ctx context.Context, keepData bool) error {
	return r.each(func(n *servers.Redis) error { return restartRedis(ctx, n, keepData) })
}

// Heal makes all nodes run. Their clocks stay as they are.
func (r *Redlock) Heal(ctx context.Context) error { return Revive(ctx, r.group...) }
