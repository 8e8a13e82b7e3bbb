package environment

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/servers"
)

const (
	sentinels       = 3
	sentinelsQuorum = 2
	masterName      = "lockport"
	// downAfter is the silence after which a sentinel considers the master down. Less causes false alarms on a busy machine.
	downAfter = 2 * time.Second
)

// RedisSentinel is a master, its replica and three sentinels, two of which must agree on a failover. Members are the first two.
type RedisSentinel struct {
	*Redis
	sentinels []*servers.Redis
}

// startSentinel returns when the replica is in sync and every sentinel knows the replica and the other sentinels.
func startSentinel(ctx context.Context) (Servers, error) {
	master, replica, err := startMasterAndReplica(ctx)
	if err != nil {
		return nil, err
	}
	all := servers.SetOf(master.Server, replica.Server)
	group, err := servers.StartVoters(sentinels)(ctx, servers.RedisOptions{Sentinel: true, Config: []string{
		fmt.Sprintf("sentinel monitor %s %s %d", masterName, strings.Replace(master.Addr(), ":", " ", 1), sentinelsQuorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", masterName, downAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s 3000", masterName),
	}})
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	all.Servers = append(all.Servers, group.Servers...)
	addrs := group.Addrs()
	target := "redis+sentinel://" + addrs[0] + "?" + url.Values{"master_name": {masterName}, "addr": addrs[1:]}.Encode()
	s := &RedisSentinel{redisOf(func() string { return target }, all, master, replica), group.Nodes}
	s.reset = s.mend
	s.Do = func(ctx context.Context, args ...any) (any, error) {
		master, err := s.Master(ctx)
		if err != nil {
			return nil, err
		}
		return master.Do(ctx, args...)
	}
	for _, sentinel := range s.sentinels {
		// Sentinels discover each other every 2 s and poll the servers every 10 s. Redis 7.0 and newer can be told to hurry; older versions refuse.
		_, _ = sentinel.Do(ctx, "SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "500")
	}
	if err := s.waitComplete(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// waitComplete waits until all sentinels know each other and see the master and a replica.
func (s *RedisSentinel) waitComplete(ctx context.Context) error {
	return servers.Poll(ctx, func(ctx context.Context) error {
		for _, sentinel := range s.sentinels {
			info, err := sentinel.Info(ctx, "sentinel")
			if sees := info["master0"]; !strings.Contains(sees, ",status=ok,") || !strings.HasSuffix(sees, fmt.Sprint(",slaves=1,sentinels=", sentinels)) {
				return errors.Join(err, fmt.Errorf("sentinel %s sees %s", sentinel.Addr(), sees))
			}
		}
		return nil
	})
}

// Named returns the addresses that the running sentinels name as the master's. err joins the errors of the others.
func (s *RedisSentinel) Named(ctx context.Context) (addrs []string, err error) {
	for _, sentinel := range s.sentinels {
		reply, failed := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		if addr, _ := reply.([]any); len(addr) == 2 {
			addrs = append(addrs, fmt.Sprint(addr[0], ":", addr[1]))
		}
		err = errors.Join(err, failed)
	}
	return addrs, err
}

// Master returns the node that all running sentinels name as the current master.
func (s *RedisSentinel) Master(ctx context.Context) (*servers.Redis, error) {
	named, err := s.Named(ctx)
	if all := slices.Compact(named); len(all) == 1 {
		for _, node := range s.Members {
			if node.Addr() == all[0] {
				return node, nil
			}
		}
	}
	return nil, errors.Join(err, fmt.Errorf("the sentinels do not agree on a master: %q", named))
}

// WaitFailover waits until the sentinels agree on a master other than old and that node acts as master, and returns it. After a kill this takes
// downAfter plus about 2 s, occasionally a few seconds more.
func (s *RedisSentinel) WaitFailover(ctx context.Context, old *servers.Redis) (next *servers.Redis, err error) {
	err = servers.Poll(ctx, func(ctx context.Context) (err error) {
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

// mend makes the other node replicate the current master, and returns when all sentinels see that. All servers run.
func (s *RedisSentinel) mend(ctx context.Context) error {
	err := servers.Poll(ctx, func(ctx context.Context) error { // the master may change between tries
		master, err := s.WaitFailover(ctx, nil)
		for _, node := range s.Members {
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
