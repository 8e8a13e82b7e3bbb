package servers

import (
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
	// downAfter is the silence after which a sentinel considers the master down. Less causes false alarms on a busy machine.
	downAfter = 2 * time.Second
)

// Sentinel is a master, its replica and three sentinels, two of which must agree on a failover. Safe for concurrent use.
type Sentinel struct {
	group[*Redis] // of all five, in this order
	// Pair are the first master and the replica. Sentinels are the others.
	Pair, Sentinels []*Redis
}

// StartSentinel starts a set whose master and replica have the options o. It is ready when the replica is in sync and every sentinel knows the replica and the other sentinels.
func StartSentinel(ctx context.Context, o RedisOptions) (*Sentinel, error) {
	s := new(Sentinel)
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sentinel) start(ctx context.Context, o RedisOptions) error {
	master, err := StartRedis(ctx, o)
	if err != nil {
		return err
	}
	s.Nodes = append(s.Nodes, master)
	replica, err := StartReplica(ctx, master)
	if err != nil {
		return err
	}
	s.Nodes = append(s.Nodes, replica)
	config := RedisOptions{args: []string{"--sentinel"}, Config: []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", masterName, master.port, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", masterName, downAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s 3000", masterName),
	}}
	if err := s.startAll(ctx, sentinels, func(ctx context.Context, _ int) (*Redis, error) { return StartRedis(ctx, config) }); err != nil {
		return err
	}
	s.Pair, s.Sentinels = s.Nodes[:2], s.Nodes[2:]
	for _, sentinel := range s.Sentinels {
		// Sentinels discover each other every 2 s and poll the servers every 10 s. Redis 7.0 and newer can be told to hurry; older versions refuse.
		_, _ = sentinel.Do(ctx, "SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "500")
	}
	return s.waitComplete(ctx)
}

// waitComplete waits until all sentinels know each other and see the master and a replica.
func (s *Sentinel) waitComplete(ctx context.Context) error {
	return Poll(ctx, func(ctx context.Context) error {
		for _, sentinel := range s.Sentinels {
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
	addrs := s.Addrs()[len(s.Pair):]
	return "redis+sentinel://" + addrs[0] + "?" + url.Values{"master_name": {masterName}, "addr": addrs[1:]}.Encode()
}

// Named returns the addresses that the running sentinels name as the master's. err joins the errors of the others.
func (s *Sentinel) Named(ctx context.Context) (addrs []string, err error) {
	for _, sentinel := range s.Sentinels {
		reply, failed := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		if addr, _ := reply.([]any); len(addr) == 2 {
			addrs = append(addrs, fmt.Sprint(addr[0], ":", addr[1]))
		}
		err = errors.Join(err, failed)
	}
	return addrs, err
}

// Master returns the node that all running sentinels name as the current master.
func (s *Sentinel) Master(ctx context.Context) (*Redis, error) {
	named, err := s.Named(ctx)
	if all := slices.Compact(named); len(all) == 1 {
		for _, node := range s.Pair {
			if node.Addr() == all[0] {
				return node, nil
			}
		}
	}
	return nil, errors.Join(err, fmt.Errorf("the sentinels do not agree on a master: %q", named))
}

// WaitFailover waits until the sentinels agree on a master other than old and that node acts as master, and returns it. After a kill this takes
// downAfter plus about 2 s, occasionally a few seconds more.
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
		for _, node := range s.Pair {
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
