package articles

import (
	"context"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Exhibit is a lock from an article or another project.
type Exhibit struct {
	// Name identifies the exhibit.
	Name string
	// Hazard is the hazard that it shows, "H3". Empty: it is sound, or the list of hazards lacks it.
	Hazard string
	// Article is the article that shows it or warns of it: "003". For a bug of a Library it is the URL of the report.
	Article, Library string
	// Is describes the fault, or why the lock is sound, in one sentence.
	Is string
	// CaughtBy are the IDs of cases that must fail. Others may fail too. Empty for a sound lock.
	CaughtBy []string
	// Sees are texts that the reasons of failures must contain: one for all cases, or one for each of CaughtBy.
	Sees []string
	// Server is the server that it runs on.
	Server Server
	// Nodes is the number of its servers, if not one.
	Nodes int

	client      func(*goredis.Options) // changes its Redis client
	spoil       func(*lock)            // replaces a step
	open, sound opener                 // for other servers than Redis
}

// Server is a kind of server. It determines the form of a target.
type Server string

// The servers.
const (
	Redis     Server = ""          // a redis:// URL of go-redis, with Nodes addresses separated by commas
	Etcd      Server = "etcd"      // "host:port"
	ZooKeeper Server = "zookeeper" // "host:port"
	Postgres  Server = "postgres"  // a postgres:// URL
	MySQL     Server = "mysql"     // a DSN of go-sql-driver, for MariaDB or MySQL
)

// opener opens a lock at a target.
type opener func(target string) (driver.Backend, error)

// All returns the broken locks of the articles, in the order of their hazards.
func All() []Exhibit { return slices.Clone(taught) }

// Sound returns the sound locks of which All are made, and a correct lock from an article.
func Sound() []Exhibit { return slices.Clone(sound) }

// Libraries returns locks with bugs that other projects have or had.
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

// OpenSound opens the sound lock of which x is made.
func (x Exhibit) OpenSound(ctx context.Context, target string) (driver.Backend, error) {
	x.open, x.client, x.spoil = x.sound, nil, nil
	return x.Open(ctx, target)
}
