package compare

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// subject is a column of a report: locks of one backend, on servers of our own or on a user's.
type subject struct {
	report.Subject
	kind  string // of servers.Versions
	setup string // what runs while costs are measured
	ttl   time.Duration
	start func(ctx context.Context) (*measure.Servers, error) // nil: its costs are not measured
}

// ownTTL is that of locks on servers of our own: the shortest that an etcd grants with its own default settings.
const ownTTL = 2 * time.Second

// ours are the subjects on servers of our own, in their order. While costs are measured all servers are as durable as they are by default, which is what
// most people run: what they promise to keep is what they sync to disk.
var ours = []subject{
	{Subject: report.Subject{Name: report.Article, Title: "An article's lock", Servers: "Redis"}, kind: "redis"},
	own("file", "File", "", "", "a folder of this machine", measure.StartFolder),
	own("redis", "Redis", "Redis", "redis", "one Redis, which writes nothing to disk", measure.Start(1, servers.StartRedis, servers.RedisOptions{})),
	own("redlock", "Redlock", "Redis", "redis", "five Redis that know nothing of each other and write nothing to disk",
		measure.Start(5, servers.StartRedis, servers.RedisOptions{})),
	own("etcd", "etcd", "etcd", "etcd", "three etcds, which sync every change to disk; heartbeats and elections as by default",
		measure.Start(1, servers.StartEtcdCluster, servers.EtcdOptions{Tick: 100 * time.Millisecond})),
	// Nodes that hear nothing from each other for 1.5 s believe it: less, and a busy machine elects leaders that nobody asked for.
	own("zookeeper", "ZooKeeper", "ZooKeeper", "zookeeper",
		"three ZooKeepers, which sync every change to disk; tickTime is 100 ms instead of 2 s, for the sake of short sessions",
		measure.Start(1, servers.StartEnsemble, servers.ZooKeeperOptions{Config: []string{"forceSync=yes", "syncLimit=15"}})),
	own("postgres", "PostgreSQL", "PostgreSQL", "postgres", "one PostgreSQL, which syncs commits to disk", startPostgres),
	own("mysql", "MariaDB", "MariaDB", "mariadb", "one MariaDB, which syncs commits to disk",
		measure.Start(1, servers.StartMariaDB, servers.MariaDBOptions{Durable: true})),
	own("table", "Table", "PostgreSQL", "postgres", "a table of one PostgreSQL, which syncs commits to disk", startTable),
}

func own(name, title, server, kind, setup string, start func(context.Context) (*measure.Servers, error)) subject {
	return subject{report.Subject{Name: name, Title: title, Servers: server, Page: name}, kind, setup, ownTTL, start}
}

var startPostgres = measure.Start(1, servers.StartPostgres, servers.PostgresOptions{Durable: true})

func startTable(ctx context.Context) (*measure.Servers, error) {
	s, err := startPostgres(ctx)
	if err == nil {
		s.URL = "table+" + s.URL + "?create=true&sslmode=disable"
	}
	return s, err
}
