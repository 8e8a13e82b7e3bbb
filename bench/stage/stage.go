// Package stage starts the servers of a family, and says what they cost: requests, commands, processor time, memory.
package stage

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/lockport/lockport/internal/lab/servers"
)

// Stage is the servers of a family. The caller must Close it.
type Stage struct {
	URL   string
	Setup string // for people
	nodes []node
	close func() error // nil, or what is to be closed before the servers
	// count, if not nil, is how many commands the servers have carried out, and memory how much they use, as they say themselves.
	count, memory func(ctx context.Context) (int64, error)
	// watch, if not nil, is for [Stage.Watch].
	watch func(ctx context.Context, names []string) (Expiry, error)
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
	{"file", "Files", "", startFile},
}

// Start starts the servers, ready to serve. A program that is not installed is a *servers.NotInstalled.
func (f Family) Start(ctx context.Context) (*Stage, error) { return f.start(ctx) }

// Close ends the servers.
func (s *Stage) Close() error {
	var errs []error
	if s.close != nil {
		errs = append(errs, s.close())
	}
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
	all := []*servers.Redis{s}
	return &Stage{
		URL: s.URL(), Setup: "one server without persistence", nodes: []node{s}, count: redisCommands(all), memory: redisMemory(all), watch: watchRedis(s),
	}, nil
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
	st.URL, st.count, st.memory = "redlock://"+strings.Join(addrs, ","), redisCommands(all), redisMemory(all)
	st.watch = watchRedis(all...)
	return st, nil
}

func startEtcd(ctx context.Context) (*Stage, error) {
	s, err := servers.StartEtcd(ctx, servers.EtcdOptions{})
	if err != nil {
		return nil, err
	}
	return &Stage{URL: s.URL(), Setup: "one server", nodes: []node{s}, count: etcdMessages(s.Addr()), watch: watchEtcd(s.Addr())}, nil
}

func startZooKeeper(ctx context.Context) (*Stage, error) {
	s, err := servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{})
	if err != nil {
		return nil, err
	}
	return &Stage{
		URL: s.URL(), Setup: "one server without fsync", nodes: []node{s}, count: zooKeeperPackets(s), watch: watchZooKeeper(s.Addr()),
	}, nil
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
	count, end, err := mariaDBQuestions(s.URL())
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Stage{URL: s.URL(), Setup: "one server without fsync", nodes: []node{s}, count: count, close: end}, nil
}

// startFile needs no server, but a folder.
func startFile(context.Context) (*Stage, error) {
	folder, err := os.MkdirTemp("", "lockport-bench-")
	if err != nil {
		return nil, err
	}
	return &Stage{URL: "file://" + folder, Setup: "a folder, without any server", close: func() error { return os.RemoveAll(folder) }}, nil
}
