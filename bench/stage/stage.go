// Package stage starts the servers of a family, and tells what they use.
package stage

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/servers"
)

// Stage is the servers of a family. The caller must Close it.
type Stage struct {
	URL   string
	nodes []node
	close func() error // nil, or what is to be closed too
}

// node is one server.
type node interface {
	URL() string
	Pid() int
	Close() error
}

// Family is a kind of servers.
type Family struct {
	Name, Title string
	Kind        string // of servers.Versions
	Setup       string // for people
	// Start starts the servers, ready to serve. A program that is not installed is a *servers.NotInstalled.
	Start func(ctx context.Context) (*Stage, error)
}

// connections is how many clients the SQL servers let in: bare locks take one each.
var connections = map[string]string{"max_connections": "800"}

// Families are all there are. Their servers sync nothing to disk: libraries are compared, and a disk's time would hide them.
var Families = []Family{
	{"redis", "Redis", "redis", "one server without persistence", several(1, servers.StartRedis, servers.RedisOptions{})},
	{"redlock", "Redlock, five Redis", "redis", "five servers without persistence", several(5, servers.StartRedis, servers.RedisOptions{})},
	{"etcd", "etcd", "etcd", "one server", several(1, servers.StartEtcd, servers.EtcdOptions{})},
	{"zookeeper", "ZooKeeper", "zookeeper", "one server without fsync", several(1, servers.StartZooKeeper, servers.ZooKeeperOptions{})},
	{"postgres", "PostgreSQL", "postgres", "one server without fsync", several(1, servers.StartPostgres, servers.PostgresOptions{Settings: connections})},
	{"mysql", "MariaDB", "mariadb", "one server without fsync", several(1, servers.StartMariaDB, servers.MariaDBOptions{Settings: connections})},
	{"file", "Files", "", "a folder, without any server", startFile},
}

// several starts n servers of one kind. Several of them are a Redlock.
func several[N node, O any](n int, start func(context.Context, O) (N, error), o O) func(context.Context) (*Stage, error) {
	return func(ctx context.Context) (*Stage, error) {
		s := &Stage{}
		var hosts []string
		for range n {
			one, err := start(ctx, o)
			if err != nil {
				return nil, errors.Join(err, s.Close())
			}
			s.URL, s.nodes = one.URL(), append(s.nodes, one)
			hosts = append(hosts, strings.TrimSuffix(strings.TrimPrefix(s.URL, "redis://"), "/0"))
		}
		if n > 1 {
			s.URL = "redlock://" + strings.Join(hosts, ",")
		}
		return s, nil
	}
}

func startFile(context.Context) (*Stage, error) {
	folder, err := os.MkdirTemp("", "lockport-bench-")
	return &Stage{URL: "file://" + folder, close: func() error { return os.RemoveAll(folder) }}, err
}

// Close ends the servers.
func (s *Stage) Close() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.Close())
	}
	if s.close != nil {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// Load is the processor time of all server processes until now, and their memory; 0 where the system does not say.
func (s *Stage) Load(context.Context) (cpu time.Duration, memory int64, err error) {
	for _, n := range s.nodes {
		c, m := tree(n.Pid())
		cpu, memory = cpu+c, memory+m
	}
	return cpu, memory, nil
}
