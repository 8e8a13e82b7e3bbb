package articles

import (
	"context"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Exhibit is a lock of somebody else's.
type Exhibit struct {
	// Name is what it is called.
	Name string
	// Hazard is what is broken in it, "H3"; empty if nothing is, or what the list of hazards does not have.
	Hazard string
	// Article says where it is shown, or warned of: "003". For a bug of a Library it is the address of its report.
	Article, Library string
	// Is says in a sentence what is broken, or how it is sound.
	Is string
	// CaughtBy are the cases of the suite that must fail, by their IDs. Others may fail too. Nothing for a sound lock.
	CaughtBy []string
	// Sees is what the reason of each failure must contain: of all, or of each of CaughtBy in its place.
	Sees []string
	// Server is what it runs on.
	Server Server
	// Nodes is how many servers it asks if not one.
	Nodes int

	client      func(*goredis.Options) // changes how it connects to Redis
	spoil       func(*lock)            // replaces a step
	open, sound opener                 // where it is not on Redis
}

// Server is a kind of servers, and with it the form of a target.
type Server string

// The servers.
const (
	Redis     Server = ""          // a redis:// URL of go-redis, with as many addresses as Nodes, commas between them
	Etcd      Server = "etcd"      // "host:port"
	ZooKeeper Server = "zookeeper" // "host:port"
	Postgres  Server = "postgres"  // a postgres:// URL
	MySQL     Server = "mysql"     // a DSN of go-sql-driver, for MariaDB or MySQL
)

// opener opens a lock at a target.
type opener func(target string) (driver.Backend, error)

// All returns the broken locks of the articles, in the order of their hazards.
func All() []Exhibit { return slices.Clone(taught) }

// Sound returns the locks of which All are made, and those that an article got right.
func Sound() []Exhibit { return slices.Clone(sound) }

// Libraries returns bugs that locks of other projects have or had.
func Libraries() []Exhibit { return slices.Clone(libraries) }

// Open opens x at a target of its Server. It does no I/O. The caller must Close it.
func (x Exhibit) Open(_ context.Context, target string) (driver.Backend, error) {
	if x.open != nil {
		return x.open(target)
	}
	l, err := openRedis(x.Name, max(x.Nodes, 1), x.client, target)
	if err != nil {
		return nil, err
	}
	if x.spoil != nil {
		x.spoil(l)
	}
	return l.as, nil
}

// OpenSound is Open for the lock of which x is made.
func (x Exhibit) OpenSound(ctx context.Context, target string) (driver.Backend, error) {
	x.open, x.client, x.spoil = x.sound, nil, nil
	return x.Open(ctx, target)
}
