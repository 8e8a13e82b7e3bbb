package costs

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// subject is what is measured: locks of one backend, on servers of our own or on a user's.
type subject struct {
	report.Subject
	setup string
	ttl   time.Duration
	start func(ctx context.Context) (*stage, error)
}

// stage is servers that run.
type stage struct {
	url   string
	close func() error
}

// ownTTL is that of locks on servers of our own: the shortest that an etcd grants with its own default settings.
const ownTTL = 2 * time.Second

// ours are the subjects on servers of our own. All servers are as durable as they are by default, which is what most people run: what they promise to keep
// is what they sync to disk.
var ours = []subject{
	own("file", "File", "a folder of this machine", startFile),
	own("redis", "Redis", "one Redis, which writes nothing to disk", starting(servers.StartRedis, servers.RedisOptions{})),
	own("redlock", "Redlock", "five Redis that know nothing of each other and write nothing to disk", startRedlock),
	own("etcd", "etcd", "three etcds, which sync every change to disk; heartbeats and elections as by default",
		starting(servers.StartEtcdCluster, servers.EtcdOptions{Tick: 100 * time.Millisecond})),
	// Nodes that hear nothing from each other for 1.5 s believe it: less, and a busy machine elects leaders that nobody asked for.
	own("zookeeper", "ZooKeeper",
		"three ZooKeepers, which sync every change to disk; tickTime is 100 ms instead of 2 s, for the sake of short sessions",
		starting(servers.StartEnsemble, servers.ZooKeeperOptions{Config: []string{"forceSync=yes", "syncLimit=15"}})),
	own("postgres", "PostgreSQL", "one PostgreSQL, which syncs commits to disk",
		starting(servers.StartPostgres, servers.PostgresOptions{Durable: true})),
	own("mysql", "MariaDB", "one MariaDB, which syncs commits to disk", starting(servers.StartMariaDB, servers.MariaDBOptions{Durable: true})),
}

func own(name, title, setup string, start func(context.Context) (*stage, error)) subject {
	return subject{Subject: report.Subject{Name: name, Title: title, Page: name}, setup: setup, ttl: ownTTL, start: start}
}

func startFile(context.Context) (*stage, error) {
	folder, err := os.MkdirTemp("", "lockport-costs-")
	return &stage{"file://" + folder, func() error { return os.RemoveAll(folder) }}, err
}

func startRedlock(ctx context.Context) (*stage, error) {
	var nodes []*servers.Redis
	end := func() (err error) {
		for _, node := range nodes {
			err = errors.Join(err, node.Close())
		}
		return err
	}
	var addrs []string
	for range 5 {
		node, err := servers.StartRedis(ctx, servers.RedisOptions{})
		if err != nil {
			return nil, errors.Join(err, end())
		}
		nodes, addrs = append(nodes, node), append(addrs, node.Addr())
	}
	return &stage{"redlock://" + strings.Join(addrs, ","), end}, nil
}

// starting starts a server, or a cluster.
func starting[S interface {
	URL() string
	Close() error
}, O any](start func(context.Context, O) (S, error), o O) func(context.Context) (*stage, error) {
	return func(ctx context.Context) (*stage, error) {
		s, err := start(ctx, o)
		if err != nil {
			return nil, err
		}
		return &stage{s.URL(), s.Close}, nil
	}
}
