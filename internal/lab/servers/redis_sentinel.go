package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	sentinels  = 3
	quorum     = 2
	masterName = "lockport"
)

// SentinelOptions are the options of a Sentinel set: a master and one replica, which are plain servers.
type SentinelOptions struct {
	// DownAfter is the silence after which a sentinel considers the master down. Default: 1 s. Much less causes false alarms on a busy machine.
	DownAfter time.Duration
}

// Sentinel is a master, its replica and three sentinels, two of which must agree on a failover. Nodes are the first master and the replica. Safe
// for concurrent use.
type Sentinel struct {
	group[*Redis]
	// Sentinels are the three sentinels.
	Sentinels group[*Redis]
}

// StartSentinel starts a set, ready when the replica is in sync and every sentinel knows the replica and the other sentinels.
func StartSentinel(ctx context.Context, o SentinelOptions) (*Sentinel, error) {
	s := new(Sentinel)
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sentinel) start(ctx context.Context, o SentinelOptions) error {
	if err := s.startAll(ctx, 2, func(ctx context.Context, _ int) (*Redis, error) { return StartRedis(ctx, RedisOptions{}) }); err != nil {
		return err
	}
	master := s.Nodes[0]
	if err := s.Nodes[1].Follow(ctx, master, master.Addr()); err != nil {
		return err
	}
	config := RedisOptions{args: []string{"--sentinel"}, Config: []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", masterName, master.port, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", masterName, cmp.Or(o.DownAfter, time.Second).Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s 3000", masterName),
	}}
	if err := s.Sentinels.startAll(ctx, sentinels, func(ctx context.Context, _ int) (*Redis, error) { return StartRedis(ctx, config) }); err != nil {
		return err
	}
	for _, sentinel := range s.Sentinels.Nodes {
		// Sentinels discover each other every 2 s and poll the servers every 10 s. Redis 7.0 and newer can be told to hurry; older versions refuse.
		_, _ = sentinel.Do(ctx, "SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "500")
	}
	return s.waitComplete(ctx)
}

// waitComplete waits until all sentinels know each other and see the master and a replica.
func (s *Sentinel) waitComplete(ctx context.Context) error {
	return Poll(ctx, func(ctx context.Context) error {
		for _, sentinel := range s.Sentinels.Nodes {
			info, err := sentinel.Info(ctx, "sentinel")
			if sees := info["master0"]; !strings.Contains(sees, ",status=ok,") || !strings.HasSuffix(sees, fmt.Sprint(",slaves=1,sentinels=", sentinels)) {
				return errors.Join(err, fmt.Errorf("sentinel %s sees %s", sentinel.Addr(), sees))
			}
		}
		return nil
	})
}

// URL returns a URL with all sentinels and the master's name: "redis+sentinel://127.0.0.1:port?addr=127.0.0.1:port&addr=…&master_name=…".
func (s *Sentinel) URL() string {
	addrs := s.Addrs()
	return "redis+sentinel://" + addrs[0] + "?" + url.Values{"master_name": {masterName}, "addr": addrs[1:]}.Encode()
}

// MasterName returns the name under which the sentinels know the master.
func (s *Sentinel) MasterName() string { return masterName }

// Addrs returns the sentinels' addresses.
func (s *Sentinel) Addrs() []string { return s.Sentinels.Addrs() }

// Master returns the node that all running sentinels name as the current master.
func (s *Sentinel) Master(ctx context.Context) (*Redis, error) {
	var named []string
	var errs []error
	for _, sentinel := range s.Sentinels.Nodes {
		reply, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		if addr, _ := reply.([]any); len(addr) == 2 {
			named = append(named, fmt.Sprint(addr[0], ":", addr[1]))
		}
		errs = append(errs, err)
	}
	if all := slices.Compact(named); len(all) == 1 {
		for _, node := range s.Nodes {
			if node.Addr() == all[0] {
				return node, nil
			}
		}
	}
	return nil, errors.Join(append(errs, fmt.Errorf("the sentinels do not agree on a master: %q", named))...)
}

// WaitFailover waits until the sentinels agree on a master other than old and that node acts as master, and returns it. After a kill this takes
// DownAfter plus about 2 s, occasionally a few seconds more.
func (s *Sentinel) WaitFailover(ctx context.Context, old *Redis) (next *Redis, err error) {
	err = Poll(ctx, func(ctx context.Context) (err error) {
		if next, err = s.Master(ctx); err != nil {
			return err
		}
		info, err := next.Info(ctx, "replication")
		if next == old || info["role"] != "master" {
			err = errors.Join(err, fmt.Errorf("no failover yet: the sentinels name %s, whose role is %s", next.Addr(), info["role"]))
		}
		return err
	})
	return next, err
}

// Mend repairs the set, whose servers all run, after any fault: it makes the other node replicate the current master, and returns when all sentinels
// see that.
func (s *Sentinel) Mend(ctx context.Context) error {
	err := Poll(ctx, func(ctx context.Context) error { // the master may change between tries
		master, err := s.WaitFailover(ctx, nil)
		for _, node := range s.Nodes {
			if err == nil && node != master {
				err = node.Follow(ctx, master, master.Addr())
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.waitComplete(ctx)
}

// Log returns the end of the logs of the sentinels and nodes, for messages.
func (s *Sentinel) Log() string { return s.Sentinels.Log() + s.group.Log() }

// Close ends all servers of the set and removes their folders.
func (s *Sentinel) Close() error {
	return errors.Join(s.Sentinels.Close(), s.group.Close())
}
