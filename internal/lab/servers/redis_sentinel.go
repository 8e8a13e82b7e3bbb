package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"
)

const (
	sentinels = 3
	quorum    = 2
)

// SentinelOptions are the options of a Sentinel set of a master and one replica.
type SentinelOptions struct {
	// Redis are the options of the master and its replica. The sentinels themselves have only its TLS: no password, no users.
	Redis RedisOptions
	// DownAfter is the silence after which a sentinel thinks the master down. Default: 1 s. Much less, and a busy machine makes it
	// see deaths that were none.
	DownAfter time.Duration
}

// Sentinel is a set of a master, its replicas and three sentinels, two of which must agree on a fail-over. Safe for
// concurrent use.
type Sentinel struct {
	// Nodes are the master, as it was at the start, and the replicas.
	Nodes []*Redis
	// Sentinels are the three sentinels.
	Sentinels []*Redis
}

// StartSentinel starts a set, ready when all replicas are in sync and every sentinel knows every replica and
// sentinel. ctx bounds the start alone. The caller must Close the set.
func StartSentinel(ctx context.Context, o SentinelOptions) (*Sentinel, error) {
	s := &Sentinel{}
	if err := s.start(ctx, o); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sentinel) start(ctx context.Context, o SentinelOptions) error {
	master, err := StartRedis(ctx, o.Redis)
	if err != nil {
		return err
	}
	s.Nodes = append(s.Nodes, master)
	replica, err := StartRedis(ctx, o.Redis)
	if err != nil {
		return err
	}
	s.Nodes = append(s.Nodes, replica)
	if err := replica.Follow(ctx, master, master.Addr()); err != nil {
		return err
	}
	for range sentinels {
		sentinel, err := s.startSentinel(ctx, o)
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, sentinel)
	}
	return s.waitAgreed(ctx)
}

func (s *Sentinel) startSentinel(ctx context.Context, o SentinelOptions) (*Redis, error) {
	host, port, err := net.SplitHostPort(s.Nodes[0].Addr())
	if err != nil {
		return nil, err
	}
	of := func(setting string, value any) string {
		return fmt.Sprintf("sentinel %s %s %v", setting, s.MasterName(), value)
	}
	config := []string{
		of("monitor", fmt.Sprint(host, " ", port, " ", quorum)),
		of("down-after-milliseconds", cmp.Or(o.DownAfter, time.Second).Milliseconds()),
		of("failover-timeout", 3000),
	}
	if user, password := o.Redis.login(); password != "" {
		config = append(config, of("auth-pass", fmt.Sprintf("%q", password)))
		if user != "" {
			config = append(config, of("auth-user", user))
		}
	}
	sentinel, err := startRedis(ctx, RedisOptions{TLS: o.Redis.TLS}, redisRole{config: config, args: []string{"--sentinel"}}, freePort)
	if err != nil {
		return nil, err
	}
	// Sentinels look for each other every 2 s, and ask servers what they are every 10 s. Redis before 7.0 cannot be told to hurry; then it takes
	// those seconds.
	_, _ = sentinel.Do(ctx, "SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "500")
	return sentinel, nil
}

// waitAgreed waits until all sentinels know each other and all replicas, and see the master.
func (s *Sentinel) waitAgreed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return poll(ctx, func() error {
		for _, sentinel := range s.Sentinels {
			reply, err := sentinel.Do(ctx, "SENTINEL", "MASTER", s.MasterName())
			if err != nil {
				return err
			}
			master := pairs(reply)
			if master["flags"] != "master" ||
				master["num-slaves"] != fmt.Sprint(len(s.Nodes)-1) ||
				master["num-other-sentinels"] != fmt.Sprint(sentinels-1) {
				return fmt.Errorf("sentinel %s: flags %v, num-slaves %v, num-other-sentinels %v",
					sentinel.Addr(), master["flags"], master["num-slaves"], master["num-other-sentinels"])
			}
		}
		return nil
	})
}

// URL names all sentinels, and the master: "redis+sentinel://127.0.0.1:port?addr=127.0.0.1:port&addr=…&master_name=…".
func (s *Sentinel) URL() string {
	addrs := s.Addrs()
	return "redis+sentinel://" + addrs[0] + "?" + url.Values{"master_name": {s.MasterName()}, "addr": addrs[1:]}.Encode()
}

// MasterName is the name under which the sentinels know the master.
func (s *Sentinel) MasterName() string { return "lockport" }

// Addrs are the sentinels' addresses, for a client to begin with.
func (s *Sentinel) Addrs() []string { return addrs(s.Sentinels) }

// Master returns the node that all sentinels which run call the master now.
func (s *Sentinel) Master(ctx context.Context) (*Redis, error) {
	var named string
	var last error
	for _, sentinel := range s.Sentinels {
		reply, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.MasterName())
		if err != nil {
			last = err
			continue
		}
		list, _ := reply.([]any)
		if len(list) != 2 {
			return nil, fmt.Errorf("sentinel %s: no master: %v", sentinel.Addr(), reply)
		}
		addr := fmt.Sprint(list[0], ":", list[1])
		if named != "" && addr != named {
			return nil, fmt.Errorf("the sentinels disagree: %s, %s", named, addr)
		}
		named = addr
	}
	for _, node := range s.Nodes {
		if node.Addr() == named {
			return node, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("no node is master (sentinels say %q)", named), last)
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
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err = poll(ctx, func() (err error) {
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
	if err != nil {
		return nil, err
	}
	if info["role"] != "master" {
		return nil, fmt.Errorf("%s is a %s", master.Addr(), info["role"])
	}
	return master, nil
}

// Mend makes the set whole again, whatever was done to its servers: it lets go on what is frozen, restarts what is down, and has the other
// nodes replicate the present master. It returns when all sentinels see that.
func (s *Sentinel) Mend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for _, r := range slices.Concat(s.Nodes, s.Sentinels) {
		if r.Thaw() != nil {
			if err := r.Restart(ctx); err != nil {
				return err
			}
		}
	}
	if err := poll(ctx, func() error { return s.follow(ctx) }); err != nil {
		return err
	}
	if err := s.waitAgreed(ctx); err != nil {
		return err
	}
	return poll(ctx, func() error { return s.replicasSeen(ctx) })
}

// followTime bounds an attempt to have all replicate the master, which may be another one meanwhile.
const followTime = 5 * time.Second

// follow has all other nodes replicate the master.
func (s *Sentinel) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, followTime)
	defer cancel()
	master, err := s.successor(ctx, nil)
	if err != nil {
		return err
	}
	for _, node := range s.Nodes {
		if node == master {
			continue
		}
		if err := node.Follow(ctx, master, master.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// replicasSeen returns nil if all sentinels see that every replica is up and copies the master.
func (s *Sentinel) replicasSeen(ctx context.Context) error {
	for _, sentinel := range s.Sentinels {
		reply, err := sentinel.Do(ctx, "SENTINEL", "REPLICAS", s.MasterName())
		if err != nil {
			return err
		}
		list, _ := reply.([]any)
		for _, one := range list {
			replica := pairs(one)
			if replica["flags"] != "slave" || replica["master-link-status"] != "ok" {
				return fmt.Errorf("sentinel %s: replica %v: flags %v, link %v",
					sentinel.Addr(), replica["name"], replica["flags"], replica["master-link-status"])
			}
		}
	}
	return nil
}

// pairs makes a map of a reply that is a list of names and values.
func pairs(reply any) map[any]any {
	list, _ := reply.([]any)
	found := make(map[any]any)
	for pair := range slices.Chunk(list, 2) {
		found[pair[0]] = pair[len(pair)-1]
	}
	return found
}

// Log is the end of what the sentinels and nodes printed, for messages.
func (s *Sentinel) Log() string { return logs(s.Sentinels) + logs(s.Nodes) }

// Close ends all servers of the set and removes their folders.
func (s *Sentinel) Close() error { return errors.Join(closeAll(s.Sentinels), closeAll(s.Nodes)) }
