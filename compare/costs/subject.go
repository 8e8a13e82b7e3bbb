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
	kind, server string // the first of servers.Versions, and what people call it; empty for none
	setup        string
	ttl          time.Duration
	start        func(ctx context.Context) (*stage, error)
	failover     func(ctx context.Context) (*stage, error) // starts the servers of which one is lost; nil: the same as all else
	article      string                                    // the name of an article's lock, whose waiters are measured for comparison; empty for none
}

// stage is servers that run.
type stage struct {
	url   string
	close func() error
	what  string                          // is lost, or why nothing is
	lose  func(ctx context.Context) error // kills the server that matters most, and starts it again where it is the only one; may be nil
	mend  func(ctx context.Context) error // makes all whole again, for the next time; may be nil
}

// ownTTL is that of locks on servers of our own: the shortest that an etcd grants with its own default settings.
const ownTTL = 2 * time.Second

// ours are the subjects on servers of our own. All servers are as durable as they are by default, which is what most people run: what they promise to keep
// is what they sync to disk.
var ours = []subject{
	own("file", "File", "", "", "a folder of this machine", startFile),
	redisSubject,
	own("redlock", "Redlock", "redis", "Redis", "five Redis that know nothing of each other and write nothing to disk", startRedlock),
	own("etcd", "etcd", "etcd", "etcd", "three etcds, which sync every change to disk; heartbeats and elections as by default",
		three(servers.StartEtcdCluster, servers.EtcdOptions{Tick: 100 * time.Millisecond})),
	// Nodes that hear nothing from each other for 1.5 s believe it: less, and a busy machine elects leaders that nobody asked for.
	own("zookeeper", "ZooKeeper", "zookeeper", "ZooKeeper",
		"three ZooKeepers, which sync every change to disk; tickTime is 100 ms instead of 2 s, for the sake of short sessions",
		three(servers.StartEnsemble, servers.ZooKeeperOptions{Config: []string{"forceSync=yes", "syncLimit=15"}})),
	own("postgres", "PostgreSQL", "postgres", "PostgreSQL", "one PostgreSQL, which syncs commits to disk",
		one(servers.StartPostgres, servers.PostgresOptions{Durable: true})),
	own("mysql", "MariaDB", "mariadb", "MariaDB", "one MariaDB, which syncs commits to disk", one(servers.StartMariaDB, servers.MariaDBOptions{Durable: true})),
}

func own(name, title, kind, server, setup string, start func(context.Context) (*stage, error)) subject {
	return subject{Subject: report.Subject{Name: name, Title: title, Page: name}, kind: kind, server: server, setup: setup, ttl: ownTTL, start: start}
}

// redisSubject has servers of its own for the fail-over: one Redis alone has nothing to fail over to.
var redisSubject = func() subject {
	s := own("redis", "Redis", "redis", "Redis",
		"one Redis, which writes nothing to disk; for the fail-over a master with a replica and three Sentinels, who take it for dead after 1 s",
		one(servers.StartRedis, servers.RedisOptions{}))
	s.article = "asks-every-five-milliseconds"
	s.failover = func(ctx context.Context) (*stage, error) {
		set, err := servers.StartSentinel(ctx, servers.SentinelOptions{DownAfter: time.Second})
		if err != nil {
			return nil, err
		}
		kill := func(ctx context.Context) error { _, err := set.KillMaster(ctx); return err }
		return &stage{set.URL(), set.Close, "the master is killed, and Sentinel promotes its replica", kill, set.Mend}, nil
	}
	return s
}()

func startFile(context.Context) (*stage, error) {
	folder, err := os.MkdirTemp("", "lockport-costs-")
	return &stage{url: "file://" + folder, close: func() error { return os.RemoveAll(folder) }, what: "there is no server to lose"}, err
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
	kill := func(context.Context) error { return nodes[0].Kill() }
	return &stage{"redlock://" + strings.Join(addrs, ","), end, "one of five is killed", kill, nodes[0].Restart}, nil
}

// server is one server.
type server interface {
	Kill() error
	Restart(ctx context.Context) error
}

// one starts a server that is lost and started again at once, on what it has on disk.
func one[S interface {
	server
	URL() string
	Close() error
}, O any](start func(context.Context, O) (S, error), o O) func(context.Context) (*stage, error) {
	return func(ctx context.Context) (*stage, error) {
		s, err := start(ctx, o)
		if err != nil {
			return nil, err
		}
		kill := func(ctx context.Context) error { return errors.Join(s.Kill(), s.Restart(ctx)) }
		return &stage{s.URL(), s.Close, "the only server is killed, and started again at once", kill, nil}, nil
	}
}

// three starts a cluster, whose leader is lost.
func three[C interface {
	URL() string
	Leader(ctx context.Context) (S, error)
	Close() error
}, S server, O any](start func(context.Context, O) (C, error), o O) func(context.Context) (*stage, error) {
	return func(ctx context.Context) (*stage, error) {
		c, err := start(ctx, o)
		if err != nil {
			return nil, err
		}
		var killed S
		kill := func(ctx context.Context) (err error) {
			if killed, err = c.Leader(ctx); err == nil {
				err = killed.Kill()
			}
			return err
		}
		mend := func(ctx context.Context) error { return killed.Restart(ctx) }
		return &stage{c.URL(), c.Close, "the leader of three is killed", kill, mend}, nil
	}
}
