package libraries

import (
	"context"

	"github.com/lockport/lockport/driver"
)

// Exhibit is a bug of somebody's lock, as a driver on a real server.
type Exhibit struct {
	// Name is what the bug is called.
	Name string
	// Library is whose bug it is or was: a library, or a program's own lock.
	Library string
	// Reference is where it was reported, or discussed.
	Reference string
	// Is says in a sentence what is broken.
	Is string
	// Server is what it needs.
	Server Server
	// CaughtBy are the cases of the package conformance that must fail, by their IDs. Others may fail too.
	CaughtBy []string
	// Sees is what the reason of each failure must contain.
	Sees string

	broken, sound func(target string) (*sessions, error)
}

// Server is a server that an exhibit needs, and with it the form of its target.
type Server string

// The servers.
const (
	Etcd      Server = "etcd"      // "host:port"
	ZooKeeper Server = "zookeeper" // "host:port"
	Postgres  Server = "postgres"  // a postgres:// URL
	MySQL     Server = "mysql"     // a DSN of go-sql-driver, for MariaDB or MySQL
)

// Open opens the broken driver at a target of the exhibit's Server. It does no I/O. The caller must Close it.
func (x Exhibit) Open(_ context.Context, target string) (driver.Backend, error) {
	return x.broken(target)
}

// OpenSound opens the same driver without the bug.
func (x Exhibit) OpenSound(_ context.Context, target string) (driver.Backend, error) {
	return x.sound(target)
}

// All are all exhibits.
func All() []Exhibit {
	return []Exhibit{
		{
			Name: "mutexes-share-a-session", Library: "clientv3/concurrency", Reference: "https://github.com/etcd-io/etcd/pull/11364", Server: Etcd,
			Is:       "the key of a Mutex is that of its session: two on one session both hold",
			CaughtBy: []string{"exclusion/two-claims"}, Sees: "another claim was granted",
			broken: shared(onEtcd), sound: onEtcd,
		},
		{
			Name: "stale-unlock", Library: "clientv3/concurrency", Reference: "https://github.com/etcd-io/etcd/issues/22082", Server: Etcd,
			Is:       "Unlock, repeated because its reply was lost, deletes what the same session has locked since",
			CaughtBy: []string{"unknown/release-reply-lost-same-client"}, Sees: "the next holder has not released the name, yet another claim was granted",
			broken: shared(onEtcd), sound: onEtcd,
		},
		{
			Name: "orphan-after-connection-loss", Library: "go-zookeeper", Reference: "https://github.com/samuel/go-zookeeper/issues/229", Server: ZooKeeper,
			Is:       "Lock returns when the connection is lost, has forgotten its node, and Unlock says that nothing is locked",
			CaughtBy: []string{"unknown/cut-after-each-request"}, Sees: "cut off after request",
			broken: shared(onZooKeeper), sound: onZooKeeper,
		},
		{
			Name: "unlocks-on-another-connection", Library: "frontier", Reference: "https://github.com/raystack/frontier/pull/1918", Server: Postgres,
			Is:       "the unlock goes to whatever connection of the pool is free, and that it released nothing is not looked at",
			CaughtBy: []string{"contract/release"}, Sees: "nobody has the name, yet a claim was not granted",
			broken: onPool, sound: onPostgres,
		},
		{
			Name: "one-connection-gets-it-twice", Library: "mysqljs", Reference: "https://github.com/mysqljs/mysql/issues/2511", Server: MySQL,
			Is:       "two claims share a connection, for which GET_LOCK succeeds as often as it asks",
			CaughtBy: []string{"exclusion/two-claims"}, Sees: "another claim was granted",
			broken: shared(onMySQL), sound: onMySQL,
		},
	}
}

// shared has all claims of a driver share one session.
func shared(open func(string) (*sessions, error)) func(string) (*sessions, error) {
	return func(target string) (*sessions, error) {
		b, err := open(target)
		if err == nil {
			b.shared = true
		}
		return b, err
	}
}
