package compare

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// subject is a column of a report: locks of one backend, on servers started here or on a user's.
type subject struct {
	report.Subject
	kind  string // key of servers.Versions
	setup string // what runs for the costs
	ttl   time.Duration
	start func(ctx context.Context) (*measure.Servers, error) // nil: its costs are not measured
}

// ownTTL is the TTL of locks on servers started here: the shortest that etcd grants with its default settings.
const ownTTL = 2 * time.Second

// ownSubjects are on servers started here. While costs are measured, all servers have their default durability, which most people run: they sync to
// disk what they promise to keep.
var ownSubjects = []subject{
	{Subject: report.Subject{Name: report.Article, Title: "An article's lock", Servers: "Redis"}, kind: "redis"},
	own("file", "File", "", "", "a folder of this machine", measure.StartFolder),
	own("redis", "Redis", "Redis", "redis", "one Redis, which writes nothing to disk", measure.Start(servers.StartRedis, servers.RedisOptions{})),
	own("redlock", "Redlock", "Redis", "redis", "five independent Redis, which write nothing to disk",
		measure.Start(servers.StartVoters(5), servers.RedisOptions{})),
	own("etcd", "etcd", "etcd", "etcd", "three etcds, which sync every change to disk; default heartbeats and elections",
		measure.Start(servers.StartEtcdCluster, servers.EtcdOptions{Tick: 100 * time.Millisecond})),
	// Nodes take a silence of 1.5 s for a failure. A shorter limit makes a busy machine elect new leaders needlessly.
	own("zookeeper", "ZooKeeper", "ZooKeeper", "zookeeper",
		"three ZooKeepers, which sync every change to disk; tickTime is 100 ms instead of 2 s, to allow short sessions",
		measure.Start(servers.StartEnsemble, servers.ZooKeeperOptions{Config: []string{"forceSync=yes", "syncLimit=15"}})),
	own("postgres", "PostgreSQL", "PostgreSQL", "postgres", "one PostgreSQL, which syncs commits to disk", startPostgres),
	own("mysql", "MariaDB", "MariaDB", "mariadb", "one MariaDB, which syncs commits to disk",
		measure.Start(servers.StartMariaDB, servers.MariaDBOptions{Config: []string{"innodb-flush-log-at-trx-commit=1"}})),
	own("table", "Table", "PostgreSQL", "postgres", "a table of one PostgreSQL, which syncs commits to disk", startTable),
}

func own(name, title, server, kind, setup string, start func(context.Context) (*measure.Servers, error)) subject {
	return subject{report.Subject{Name: name, Title: title, Servers: server, Page: name}, kind, setup, ownTTL, start}
}

var startPostgres = measure.Start(servers.StartPostgres, servers.PostgresOptions{Config: []string{"fsync = on", "full_page_writes = on"}})

func startTable(ctx context.Context) (*measure.Servers, error) {
	s, err := startPostgres(ctx)
	if err == nil {
		s.URL = "table+" + s.URL + "?create=true&sslmode=disable"
	}
	return s, err
}
