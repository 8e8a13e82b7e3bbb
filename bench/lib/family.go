package lib

import (
	"context"

	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Family is a kind of servers.
type Family struct {
	Name, Title string
	Kind        string // of servers.Versions
	Setup       string // for people
	// Start starts the servers, ready to serve. A program that is not installed is a *servers.NotInstalled.
	Start func(ctx context.Context) (*measure.Servers, error)
}

// limit is how many clients the SQL servers let in: bare locks take one each.
var limit = map[string]string{"max_connections": "800"}

// Families are all there are. Their servers sync nothing to disk: libraries are compared, and a disk's time would hide them.
var Families = []Family{
	{"redis", "Redis", "redis", "one server without persistence", measure.Start(1, servers.StartRedis, servers.RedisOptions{})},
	{"redlock", "Redlock, five Redis", "redis", "five servers without persistence", measure.Start(5, servers.StartRedis, servers.RedisOptions{})},
	{"etcd", "etcd", "etcd", "one server", measure.Start(1, servers.StartEtcd, servers.EtcdOptions{})},
	{"zookeeper", "ZooKeeper", "zookeeper", "one server without fsync", measure.Start(1, servers.StartZooKeeper, servers.ZooKeeperOptions{})},
	{"postgres", "PostgreSQL", "postgres", "one server without fsync", measure.Start(1, servers.StartPostgres, servers.PostgresOptions{Settings: limit})},
	{"mysql", "MariaDB", "mariadb", "one server without fsync", measure.Start(1, servers.StartMariaDB, servers.MariaDBOptions{Settings: limit})},
	{"table", "A table of PostgreSQL", "postgres", "one server without fsync", measure.Start(1, servers.StartPostgres, servers.PostgresOptions{Settings: limit})},
	{"nats", "NATS JetStream", "nats", "one server, which syncs every two minutes, as by default; its version is in internal/lab/servers/natsserver", startNATS},
	{"file", "Files", "", "a folder, without any server", measure.StartFolder},
}
