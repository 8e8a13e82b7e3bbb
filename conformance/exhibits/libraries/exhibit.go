package libraries

import (
	"context"
	"slices"
	"time"

	"github.com/lockport/lockport/conformance"
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
	// Server is what it needs: one of the Servers.
	Server Server
	// CaughtBy are the cases of the package conformance that must fail, by their IDs. Others may fail too.
	CaughtBy []string
	// Sees is what the reason of each failure must contain.
	Sees string
	// TTL is the least Config.MinTTL with which the bug is larger than what a busy machine adds. 0: any.
	TTL time.Duration

	broken, sound opener
}

// opener opens a driver at a target.
type opener func(ctx context.Context, target string) (driver.Backend, error)

// Server is a system of servers that an exhibit needs, and with it the form of its target.
type Server string

// The systems.
const (
	Redis     Server = "redis"     // "host:port"
	Redlock   Server = "redlock"   // "host:port,host:port,…" of five Redis servers
	HungNode  Server = "hung node" // the same, of which the first one accepts connections and never answers
	Etcd      Server = "etcd"      // "host:port"
	ZooKeeper Server = "zookeeper" // "host:port"
	Postgres  Server = "postgres"  // a postgres:// URL
	PgBouncer Server = "pgbouncer" // the same, of a PgBouncer in transaction mode with one session
	MySQL     Server = "mysql"     // a DSN of go-sql-driver, for MariaDB or MySQL
)

// Open opens the broken driver at a target of the exhibit's Server. It does no I/O. The caller must Close it.
func (x Exhibit) Open(ctx context.Context, target string) (driver.Backend, error) {
	return x.broken(ctx, target)
}

// OpenSound opens the same driver without the bug. Where the bug is to trust what stands between, as with PgBouncer, the target must lead to the
// server itself.
func (x Exhibit) OpenSound(ctx context.Context, target string) (driver.Backend, error) {
	return x.sound(ctx, target)
}

// All are all exhibits.
func All() []Exhibit {
	return slices.Concat(redisBugs, redlockBugs, etcdBugs, zookeeperBugs, postgresBugs, mysqlBugs)
}

// IsOp tells the requests of the drivers apart by their bytes, for the faults of a test. It knows no more kinds than the cases need: of
// OpAny it is always true, of a kind that it cannot tell never.
func (s Server) IsOp(op conformance.Op, request []byte) bool {
	if op == conformance.OpAny {
		return true
	}
	switch s {
	case Redis, Redlock, HungNode:
		return isRedisOp(op, request)
	case Etcd:
		return isEtcdOp(op, request)
	case ZooKeeper:
		return isZooKeeperOp(op, request)
	}
	return false
}
