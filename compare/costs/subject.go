package costs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// subject is what is measured: locks of one backend, on servers of our own or on a user's.
type subject struct {
	report.Subject
	kind  string // of servers.Versions; empty for none
	setup string
	ttl   time.Duration
	start func(ctx context.Context) (*stage, error)
}

// stage is the servers on which a subject is measured.
type stage struct {
	url   string
	close func() error
	// article is the name of an article's lock on the same servers, whose waiters are measured for comparison; empty for none.
	article string
	// lose sets up what is lost for the scenario failover, if there is anything: see lostWhy.
	lose func(ctx context.Context) (*loss, error)
	// lostWhy says why there is nothing.
	lostWhy string
}

// loss is a server that is lost, and how the others, or itself, get over it.
type loss struct {
	what string
	url  string // of what serves locks meanwhile
	// strike kills the server that matters most, and returns when another one has taken its place, or it is back.
	strike func(ctx context.Context) error
	mend   func(ctx context.Context) error // makes all whole again, for the next time; may be nil
	close  func() error                    // may be nil
}

// ownTTL is that of locks on servers of our own: the shortest that an etcd grants with its own default settings.
const ownTTL = 2 * time.Second

// ours are the subjects on servers of our own. All servers are as durable as they are by default, which is what most people run: what they promise to keep
// is what they sync to disk.
var ours = []subject{
	{
		Subject: report.Subject{Name: "file", Title: "File", Page: "file"},
		setup:   "a folder of this machine",
		ttl:     ownTTL, start: startFile,
	}, {
		Subject: report.Subject{Name: "redis", Title: "Redis", Page: "redis"}, kind: "redis",
		setup: "one Redis, which writes nothing to disk; for the fail-over a master with a replica and three Sentinels, who take it for dead after 1 s",
		ttl:   ownTTL, start: startRedis,
	}, {
		Subject: report.Subject{Name: "redlock", Title: "Redlock", Page: "redlock"}, kind: "redis",
		setup: "five Redis that know nothing of each other and write nothing to disk",
		ttl:   ownTTL, start: startRedlock,
	}, {
		Subject: report.Subject{Name: "etcd", Title: "etcd", Page: "etcd"}, kind: "etcd",
		setup: "three etcds, which sync every change to disk; heartbeats and elections as by default",
		ttl:   ownTTL, start: startEtcd,
	}, {
		Subject: report.Subject{Name: "zookeeper", Title: "ZooKeeper", Page: "zookeeper"}, kind: "zookeeper",
		setup: "three ZooKeepers, which sync every change to disk; tickTime is 100 ms instead of 2 s, for the sake of short sessions",
		ttl:   ownTTL, start: startZooKeeper,
	}, {
		Subject: report.Subject{Name: "postgres", Title: "PostgreSQL", Page: "postgres"}, kind: "postgres",
		setup: "one PostgreSQL, which syncs commits to disk",
		ttl:   ownTTL, start: startPostgres,
	}, {
		Subject: report.Subject{Name: "mysql", Title: "MariaDB", Page: "mysql"}, kind: "mariadb",
		setup: "one MariaDB, which syncs commits to disk",
		ttl:   ownTTL, start: startMariaDB,
	},
}

func startFile(context.Context) (*stage, error) {
	folder, err := os.MkdirTemp("", "lockport-costs-")
	if err != nil {
		return nil, err
	}
	return &stage{url: "file://" + folder, close: func() error { return os.RemoveAll(folder) }, lostWhy: "there is no server to lose"}, nil
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
	return &loss{
		what: "the master is killed, and Sentinel promotes its replica",
		url:  set.URL(),
		strike: func(ctx context.Context) error {
			killed, err := set.KillMaster(ctx)
			if err == nil {
				_, err = set.WaitFailover(ctx, killed)
			}
			return err
		},
		mend:  set.Mend,
		close: set.Close,
	}, nil
}

func startRedlock(ctx context.Context) (*stage, error) {
	var nodes []*servers.Redis
	end := func() error {
		var errs []error
		for _, node := range nodes {
			errs = append(errs, node.Close())
		}
		return errors.Join(errs...)
	}
	var addrs []string
	for range 5 {
		node, err := servers.StartRedis(ctx, servers.RedisOptions{})
		if err != nil {
			return nil, errors.Join(err, end())
		}
		nodes = append(nodes, node)
		addrs = append(addrs, node.Addr())
	}
	url := "redlock://" + strings.Join(addrs, ",")
	return &stage{url: url, close: end, lose: func(context.Context) (*loss, error) {
		return &loss{
			what:   "one of five is killed",
			url:    url,
			strike: func(context.Context) error { return nodes[0].Kill() },
			mend:   nodes[0].Restart,
		}, nil
	}}, nil
}

// etcdTick is etcd's own default.
const etcdTick = 100 * time.Millisecond

func startEtcd(ctx context.Context) (*stage, error) {
	cluster, err := servers.StartEtcdCluster(ctx, servers.EtcdOptions{Tick: etcdTick})
	if err != nil {
		return nil, err
	}
	return &stage{url: cluster.URL(), close: cluster.Close, lose: func(context.Context) (*loss, error) {
		var killed *servers.Etcd
		return &loss{
			what: "the leader of three is killed",
			url:  cluster.URL(),
			strike: func(ctx context.Context) (err error) {
				if killed, err = cluster.Leader(ctx); err == nil {
					err = killed.Kill()
				}
				if err == nil {
					_, err = cluster.Leader(ctx)
				}
				return err
			},
			mend: func(ctx context.Context) error { return killed.Restart(ctx) },
		}, nil
	}}, nil
}

func startZooKeeper(ctx context.Context) (*stage, error) {
	// Nodes that hear nothing from each other for 1.5 s believe it: less, and a busy machine elects leaders that nobody asked for.
	ensemble, err := servers.StartEnsemble(ctx, servers.ZooKeeperOptions{Config: []string{"forceSync=yes", "syncLimit=15"}})
	if err != nil {
		return nil, err
	}
	return &stage{url: ensemble.URL(), close: ensemble.Close, lose: func(context.Context) (*loss, error) {
		var killed *servers.ZooKeeper
		return &loss{
			what: "the leader of three is killed",
			url:  ensemble.URL(),
			strike: func(ctx context.Context) (err error) {
				if killed, err = ensemble.Leader(ctx); err == nil {
					err = killed.Kill()
				}
				if err == nil {
					_, err = ensemble.WaitFailover(ctx, killed)
				}
				return err
			},
			mend: func(ctx context.Context) error { return killed.Restart(ctx) },
		}, nil
	}}, nil
}

func startPostgres(ctx context.Context) (*stage, error) {
	server, err := servers.StartPostgres(ctx, servers.PostgresOptions{Durable: true})
	if err != nil {
		return nil, err
	}
	return oneServer(server, server.URL()), nil
}

func startMariaDB(ctx context.Context) (*stage, error) {
	server, err := servers.StartMariaDB(ctx, servers.MariaDBOptions{Durable: true})
	if err != nil {
		return nil, err
	}
	return oneServer(server, server.URL()), nil
}

// oneServer is a stage whose server is killed and started again at once, on what it has on disk.
func oneServer(server interface {
	Kill() error
	Restart(ctx context.Context) error
	Close() error
}, url string) *stage {
	return &stage{url: url, close: server.Close, lose: func(context.Context) (*loss, error) {
		return &loss{
			what: "the only server is killed, and started again at once",
			url:  url,
			strike: func(ctx context.Context) error {
				if err := server.Kill(); err != nil {
					return err
				}
				return server.Restart(ctx)
			},
		}, nil
	}}
}

// version is what a report says of the servers.
func (s subject) version(versions map[string]string) string {
	names := map[string]string{"redis": "Redis", "etcd": "etcd", "zookeeper": "ZooKeeper", "postgres": "PostgreSQL", "mariadb": "MariaDB"}
	if s.kind == "" {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(names[s.kind], " ", versions[s.kind]))
}
