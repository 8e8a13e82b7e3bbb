package lib

import (
	"context"
	"errors"

	"github.com/lockport/lockport/backend/nats"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Family is a kind of servers.
type Family struct {
	Name, Title string
	Kind        string // of servers.Versions
	Setup       string // for readers
	// Start starts the servers, and returns when they serve. If a program is not installed, the error is a *servers.NotInstalled.
	Start func(ctx context.Context) (*measure.Servers, error)
}

// limit is the SQL servers' limit on connections: bare locks need one each.
var limit = []string{"max_connections=800"}

// Families are all families. Their servers sync nothing to disk before they answer, except etcd: we compare libraries, and the disk's time would hide the
// differences.
var Families = []Family{
	{"redis", "Redis", "redis", "one server without persistence", measure.Start(servers.StartRedis, servers.RedisOptions{})},
	{"redlock", "Redlock, five Redis", "redis", "five servers without persistence", measure.Start(servers.StartVoters(5), servers.RedisOptions{})},
	{"etcd", "etcd", "etcd", "one server", measure.Start(servers.StartEtcd, servers.EtcdOptions{})},
	{"zookeeper", "ZooKeeper", "zookeeper", "one server without fsync", measure.Start(servers.StartZooKeeper, servers.ZooKeeperOptions{})},
	{"postgres", "PostgreSQL", "postgres", "one server without fsync", measure.Start(servers.StartPostgres, servers.PostgresOptions{Config: limit})},
	{"mysql", "MariaDB", "mariadb", "one server without fsync", measure.Start(servers.StartMariaDB, servers.MariaDBOptions{Config: limit})},
	{"table", "A table of PostgreSQL", "postgres", "one server without fsync", measure.Start(servers.StartPostgres, servers.PostgresOptions{Config: limit})},
	{"nats", "NATS JetStream", "nats", "one server that syncs every two minutes, the default; internal/lab/servers/natsserver pins its version", startNATS},
	{"file", "Files", "", "a folder, without a server", measure.StartFolder},
}

// startNATS starts a server and creates the bucket of the locks.
func startNATS(ctx context.Context) (*measure.Servers, error) {
	all, err := measure.Start(servers.StartNATS, 1)(ctx)
	if err != nil {
		return nil, err
	}
	js, end, err := openJetStream(all.URL)
	if err == nil {
		err = errors.Join(nats.CreateBucket(ctx, js, nats.Options{}, 1), end())
	}
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	return all, nil
}
