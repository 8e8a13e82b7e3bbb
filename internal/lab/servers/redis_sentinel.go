package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

const (
	sentinels  = 3
	quorum     = 2
	masterName = "lockport" // of the master, for the sentinels
)

// SentinelOptions are the options of a Sentinel set of a master and one replica.
type SentinelOptions struct {
	// Redis are the options of the master and its replica. The sentinels themselves have only its TLS: no password, no users.
	Redis RedisOptions
	// DownAfter is the silence after which a sentinel thinks the master down. Default: 1 s. Much less, and a busy machine makes it
	// see deaths that were none.
	DownAfter time.Duration
}

// Sentinel is a set of a master, its replica and three sentinels, two of which must agree on a failover. Nodes are the master, as it
// was at the start, and the replica. Safe for concurrent use.
type Sentinel struct {
	group[*Redis]
	// Sentinels are the three sentinels.
	Sentinels []*Redis
	watchers  group[*Redis]
}

// StartSentinel starts a set, ready when the replica is in sync and every sentinel knows it and every other sentinel.
func StartSentinel(ctx context.Context, o SentinelOptions) (*Sentinel, error) {
	s := new(Sentinel)
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sentinel) start(ctx context.Context, o SentinelOptions) error {
	if err := s.startAll(ctx, 2, func(ctx context.Context, _ int) (*Redis, error) { return StartRedis(ctx, o.Redis) }); err != nil {
		return err
	}
	master := s.Nodes[0]
	if err := s.Nodes[1].Follow(ctx, master, master.Addr()); err != nil {
		return err
	}
	config := []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", masterName, master.port, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", masterName, cmp.Or(o.DownAfter, time.Second).Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s 3000", masterName),
	}
	if user, password := o.Redis.login(); password != "" {
		config = append(config, fmt.Sprintf("sentinel auth-pass %s %q", masterName, password))
		if user != "" {
			config = append(config, fmt.Sprintf("sentinel auth-user %s %s", masterName, user))
		}
	}
	err := s.watchers.startAll(ctx, sentinels, func(ctx context.Context, _ int) (*Redis, error) {
		return startRedis(ctx, RedisOptions{TLS: o.Redis.TLS, Config: config}, "--sentinel")
	})
	s.Sentinels = s.watchers.Nodes
	if err != nil {
		return err
	}
	for _, sentinel := range s.Sentinels {
		// Sentinels look for each other every 2 s, and ask servers what they are every 10 s. Redis before 7.0 cannot be told to hurry.
		_, _ = sentinel.Do(ctx, "SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "500")
	}
	return s.waitWhole(ctx)
}

// waitWhole waits until all sentinels know each other, and see the master and a replica that copies it.
func (s *Sentinel) waitWhole(ctx context.Context) error {
	return pollFor(ctx, func(ctx context.Context) error {
		for _, sentinel := range s.Sentinels {
			for _, want := range []struct {
				command []any
				fields  map[any]any
			}{
				{[]any{"SENTINEL", "MASTERS"}, map[any]any{"flags": "master", "num-slaves": "1", "num-other-sentinels": fmt.Sprint(sentinels - 1)}},
				{[]any{"SENTINEL", "REPLICAS", masterName}, map[any]any{"flags": "slave", "master-link-status": "ok"}},
			} {
				reply, err := sentinel.Do(ctx, want.command...)
				if err != nil {
					return err
				}
				for _, one := range list(reply) {
					got := pairs(one)
					for name, value := range want.fields {
						if got[name] != value {
							return fmt.Errorf("sentinel %s: %s: %v is %v, not %v", sentinel.Addr(), want.command[1], name, got[name], value)
						}
					}
				}
			}
		}
		return nil
	})
}

// URL names all sentinels, and the master: "redis+sentinel://127.0.0.1:port?addr=127.0.0.1:port&addr=…&master_name=…".
func (s *Sentinel) URL() string {
	addrs := s.Addrs()
	return "redis+sentinel://" + addrs[0] + "?" + url.Values{"master_name": {masterName}, "addr": addrs[1:]}.Encode()
}

// MasterName is the name under which the sentinels know the master.
func (s *Sentinel) MasterName() string { return masterName }

// Addrs are the sentinels' addresses, for a client to begin with.
func (s *Sentinel) Addrs() []string { return s.watchers.Addrs() }

// Master returns the node that all sentinels which run call the master now.
func (s *Sentinel) Master(ctx context.Context) (*Redis, error) {
	var named string
	var errs []error
	for _, sentinel := range s.Sentinels {
		reply, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
		addr, _ := reply.([]any)
		switch {
		case len(addr) != 2:
			errs = append(errs, err)
		case named != "" && named != fmt.Sprint(addr[0], ":", addr[1]):
			return nil, fmt.Errorf("the sentinels disagree: %s, %v", named, addr)
		default:
			named = fmt.Sprint(addr[0], ":", addr[1])
		}
	}
	for _, node := range s.Nodes {
		if node.Addr() == named {
			return node, nil
		}
	}
	return nil, errors.Join(append(errs, fmt.Errorf("no node is master (sentinels say %q)", named))...)
}

// KillMaster kills the present master with SIGKILL and returns it. WaitFailover(ctx, killed) then waits for the next one.
func (s *Sentinel) KillMaster(ctx context.Context) (killed *Redis, err error) {
	master, err := s.Master(ctx)
	if err != nil {
		return nil, err
	}
	return master, master.Kill()
}

// WaitFailover waits until the sentinels agree on a master other than old and that node is one, and returns it. After a
// kill that takes DownAfter and about 2 s, now and then some seconds more.
func (s *Sentinel) WaitFailover(ctx context.Context, old *Redis) (next *Redis, err error) {
	err = pollFor(ctx, func(ctx context.Context) (err error) {
		next, err = s.successor(ctx, old)
		return err
	})
	return next, err
}

// successor is what WaitFailover waits for.
func (s *Sentinel) successor(ctx context.Context, old *Redis) (*Redis, error) {
	master, err := s.Master(ctx)
	if err != nil {
		return nil, err
	}
	if master == old {
		return nil, fmt.Errorf("%s is still the master", old.Addr())
	}
	info, err := master.Info(ctx, "replication")
	if info["role"] != "master" {
		err = errors.Join(err, fmt.Errorf("%s is a %s", master.Addr(), info["role"]))
	}
	return master, err
}

// Mend makes the set whole again, whatever was done to its servers: it thaws what is frozen, restarts what is down, and has the other
// node replicate the present master. It returns when all sentinels see that.
func (s *Sentinel) Mend(ctx context.Context) error {
	for _, r := range slices.Concat(s.Nodes, s.Sentinels) {
		if r.Thaw() != nil {
			if err := r.Restart(ctx); err != nil {
				return err
			}
		}
	}
	err := pollFor(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestTime) // the master may be another one meanwhile
		defer cancel()
		master, err := s.successor(ctx, nil)
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
	return s.waitWhole(ctx)
}

func list(reply any) []any {
	all, _ := reply.([]any)
	return all
}

// pairs makes a map of a reply that is a list of names and values.
func pairs(reply any) map[any]any {
	found := make(map[any]any)
	for pair := range slices.Chunk(list(reply), 2) {
		found[pair[0]] = pair[len(pair)-1]
	}
	return found
}

// Log is the end of what the sentinels and nodes printed, for messages.
func (s *Sentinel) Log() string { return s.watchers.Log() + s.group.Log() }

// Close ends all servers of the set and removes their folders.
func (s *Sentinel) Close() error { return errors.Join(s.watchers.Close(), s.group.Close()) }
