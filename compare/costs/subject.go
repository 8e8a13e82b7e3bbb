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
}

// stage is the servers on which a subject is measured.
type stage struct {
	url   string
	close func() error
	// article is the name of an article's lock on the same servers, whose waiters are measured for comparison; empty for none.
	article string
	// lose sets up what is lost for the scenario failover; nil: see lostWhy.
	lose    func(ctx context.Context) (*loss, error)
	lostWhy string
}

// loss is a server that is lost, and how the others, or itself, get over it.
type loss struct {
	what string
	url  string // of what serves locks meanwhile
	// kill kills the server that matters most. Where there is only one, it is started again.
	kill  func(ctx context.Context) error
	mend  func(ctx context.Context) error // makes all whole again, for the next time; may be nil
	close func() error                    // may be nil
}

// ownTTL is that of locks on servers of our own: the shortest that an etcd grants with its own default settings.
const ownTTL = 2 * time.Second

// etcdTick is etcd's own default.
const etcdTick = 100 * time.Millisecond

// ours are the subjects on servers of our own. All servers are as durable as they are by default, which is what most people run: what they promise to keep
// is what they sync to disk.
var ours = []subject{
	own("file", "File", "", "", "a folder of this machine", startFile),
	own("redis", "Redis", "redis", "Redis",
		"one Redis, which writes nothing to disk; for the fail-over a master with a replica and three Sentinels, who take it for dead after 1 s", startRedis),
	own("redlock", "Redlock", "redis", "Redis", "five Redis that know nothing of each other and write nothing to disk", startRedlock),
	own("etcd", "etcd", "etcd", "etcd", "three etcds, which sync every change to disk; heartbeats and elections as by default",
		three(servers.StartEtcdCluster, servers.EtcdOptions{Tick: etcdTick})),
	// Nodes that hear nothing from each other for 1.5 s believe it: less, and a busy machine elects leaders that nobody asked for.
	own("zookeeper", "ZooKeeper", "zookeeper", "ZooKeeper",
		"three ZooKeepers, which sync every change to disk; tickTime is 100 ms instead of 2 s, for the sake of short sessions",
		three(servers.StartEnsemble, servers.ZooKeeperOptions{Config: []string{"forceSync=yes", "syncLimit=15"}})),
	own("postgres", "PostgreSQL", "postgres", "PostgreSQL", "one PostgreSQL, which syncs commits to disk",
		one(servers.StartPostgres, servers.PostgresOptions{Durable: true})),
	own("mysql", "MariaDB", "mariadb", "MariaDB", "one MariaDB, which syncs commits to disk", one(servers.StartMariaDB, servers.MariaDBOptions{Durable: true})),
}

func own(name, title, kind, server, setup string, start func(context.Context) (*stage, error)) subject {
	return subject{report.Subject{Name: name, Title: title, Page: name}, kind, server, setup, ownTTL, start}
}

func startFile(context.Context) (*stage, error) {
	folder, err := os.MkdirTemp("", "lockport-costs-")
	return &stage{url: "file://" + folder, close: func() error { return os.RemoveAll(folder) }, lostWhy: "there is no server to lose"}, err
}

func startRedis(ctx context.Context) (*stage, error) {
	server, err := servers.StartRedis(ctx, servers.RedisOptions{})
	if err != nil {
		return nil, err
	}
	return &stage{url: server.URL(), article: spinning, close: server.Close, lose: loseMaster}, nil
}

// loseMaster sets up servers of its own: one Redis alone has nothing to fail over to.
func loseMaster(ctx context.Context) (*loss, error) {
	set, err := servers.StartSentinel(ctx, servers.SentinelOptions{DownAfter: time.Second})
	if err != nil {
		return nil, err
	}
	kill := func(ctx context.Context) error { _, err := set.KillMaster(ctx); return err }
	return &loss{"the master is killed, and Sentinel promotes its replica", set.URL(), kill, set.Mend, set.Close}, nil
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
	url := "redlock://" + strings.Join(addrs, ",")
	return &stage{url: url, close: end, lose: func(context.Context) (*loss, error) {
		kill := func(context.Context) error { return nodes[0].Kill() }
		return &loss{"one of five is killed", url, kill, nodes[0].Restart, nil}, nil
	}}, nil
}

// node is one server.
type node interface {
	Kill() error
	Restart(ctx context.Context) error
}

// cluster is several servers of which one leads.
type cluster[N node] interface {
	URL() string
	Leader(ctx context.Context) (N, error)
	Close() error
}

// three starts a cluster, whose leader is lost.
func three[C cluster[N], N node, O any](start func(context.Context, O) (C, error), o O) func(context.Context) (*stage, error) {
	return func(ctx context.Context) (*stage, error) {
		c, err := start(ctx, o)
		if err != nil {
			return nil, err
		}
		return &stage{url: c.URL(), close: c.Close, lose: func(context.Context) (*loss, error) {
			var killed N
			kill := func(ctx context.Context) (err error) {
				if killed, err = c.Leader(ctx); err != nil {
					return err
				}
				return killed.Kill()
			}
			return &loss{"the leader of three is killed", c.URL(), kill, func(ctx context.Context) error { return killed.Restart(ctx) }, nil}, nil
		}}, nil
	}
}

// one starts a server that is lost and started again at once, on what it has on disk.
func one[S interface {
	node
	URL() string
	Close() error
}, O any](start func(context.Context, O) (S, error), o O) func(context.Context) (*stage, error) {
	return func(ctx context.Context) (*stage, error) {
		s, err := start(ctx, o)
		if err != nil {
			return nil, err
		}
		return &stage{url: s.URL(), close: s.Close, lose: func(context.Context) (*loss, error) {
			kill := func(ctx context.Context) error { return errors.Join(s.Kill(), s.Restart(ctx)) }
			return &loss{"the only server is killed, and started again at once", s.URL(), kill, nil, nil}, nil
		}}, nil
	}
}

// version is what a report says of the servers.
func (s subject) version(versions map[string]string) string {
	return strings.TrimSpace(s.server + " " + versions[s.kind])
}
