// Package stage starts the servers of a family, and says what they cost: requests, commands, processor time, memory.
package stage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockport/lockport/internal/servers"
)

// Stage is the servers of a family. The caller must Close it.
type Stage struct {
	URL   string
	Setup string // for people
	nodes []node
	// count, if not nil, is how many commands the servers have carried out, and how much memory they use, as they say themselves.
	count func(ctx context.Context) (commands, memory int64, err error)
}

// node is one server.
type node interface {
	Pid() int
	Close() error
}

// Family is a kind of servers.
type Family struct {
	Name, Title string
	Kind        string // of servers.Versions
	start       func(ctx context.Context) (*Stage, error)
}

// Families are all there are. Their servers sync nothing to disk: what is compared is the libraries, and a disk's time would hide them.
var Families = []Family{
	{"redis", "Redis", "redis", startRedis},
	{"redlock", "Redlock, five Redis", "redis", startRedlock},
	{"etcd", "etcd", "etcd", startEtcd},
	{"zookeeper", "ZooKeeper", "zookeeper", startZooKeeper},
	{"postgres", "PostgreSQL", "postgres", startPostgres},
	{"mysql", "MariaDB", "mariadb", startMariaDB},
}

// Start starts the servers, ready to serve. A program that is not installed is a *servers.NotInstalled.
func (f Family) Start(ctx context.Context) (*Stage, error) { return f.start(ctx) }

// Close ends the servers.
func (s *Stage) Close() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

func startRedis(ctx context.Context) (*Stage, error) {
	s, err := servers.StartRedis(ctx, servers.RedisOptions{})
	if err != nil {
		return nil, err
	}
	return &Stage{URL: s.URL(), Setup: "one server without persistence", nodes: []node{s}, count: askRedis([]*servers.Redis{s})}, nil
}

func startRedlock(ctx context.Context) (*Stage, error) {
	st := &Stage{Setup: "five servers without persistence"}
	var addrs []string
	var all []*servers.Redis
	for range 5 {
		s, err := servers.StartRedis(ctx, servers.RedisOptions{})
		if err != nil {
			return nil, errors.Join(err, st.Close())
		}
		st.nodes, addrs, all = append(st.nodes, s), append(addrs, s.Addr()), append(all, s)
	}
	st.URL, st.count = "redlock://"+strings.Join(addrs, ","), askRedis(all)
	return st, nil
}

// askRedis counts what servers have carried out, scripts and what they call, but for the questions themselves.
func askRedis(all []*servers.Redis) func(ctx context.Context) (commands, memory int64, err error) {
	return func(ctx context.Context) (commands, memory int64, err error) {
		for _, s := range all {
			stats, err := s.Info(ctx, "commandstats")
			if err != nil {
				return 0, 0, err
			}
			for command, of := range stats {
				if command == "cmdstat_info" {
					continue
				}
				var n int64
				if _, err := fmt.Sscanf(of, "calls=%d,", &n); err != nil {
					return 0, 0, fmt.Errorf("INFO commandstats says %s:%s", command, of)
				}
				commands += n
			}
			uses, err := s.Info(ctx, "memory")
			if err != nil {
				return 0, 0, err
			}
			n, err := strconv.ParseInt(uses["used_memory"], 10, 64)
			if err != nil {
				return 0, 0, err
			}
			memory += n
		}
		return commands, memory, nil
	}
}

func startEtcd(ctx context.Context) (*Stage, error) {
	s, err := servers.StartEtcd(ctx, servers.EtcdOptions{})
	if err != nil {
		return nil, err
	}
	return &Stage{URL: s.URL(), Setup: "one server", nodes: []node{s}}, nil
}

func startZooKeeper(ctx context.Context) (*Stage, error) {
	s, err := servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{})
	if err != nil {
		return nil, err
	}
	return &Stage{URL: s.URL(), Setup: "one server without fsync", nodes: []node{s}}, nil
}

// connections is how many clients the SQL servers let in: bare locks take one each.
const connections = "800"

func startPostgres(ctx context.Context) (*Stage, error) {
	s, err := servers.StartPostgres(ctx, servers.PostgresOptions{Settings: map[string]string{"max_connections": connections}})
	if err != nil {
		return nil, err
	}
	return &Stage{URL: s.URL(), Setup: "one server without fsync", nodes: []node{s}}, nil
}

func startMariaDB(ctx context.Context) (*Stage, error) {
	s, err := servers.StartMariaDB(ctx, servers.MariaDBOptions{Settings: map[string]string{"max_connections": connections}})
	if err != nil {
		return nil, err
	}
	return &Stage{URL: s.URL(), Setup: "one server without fsync", nodes: []node{s}}, nil
}
