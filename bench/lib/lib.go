// Package lib has the ways to take locks that bench measures. They are lockport's, other libraries' (from the referee's package libraries), and the
// floors. A floor is the bare commands through the same clients.
package lib

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/referee/libraries"
)

// Library is one way to take locks on one family of servers. Results store the fields that are meant for readers.
type Library struct {
	Family, Name string // tables show Name
	Kind         string // one of Ours, Variant, Theirs, Floor, Probe
	Module       string // the Go module whose version is shown; empty for lockport
	Version      string // the version of Module, in results
	How          string // the calls, and settings other than the defaults
	Renewal      string `json:",omitempty"` // what its user must add to hold a lock beyond the TTL; empty: nothing
	// Beside: holders of a name do not exclude each other.
	Beside bool `json:"-"`
	// Only are prefixes of the names of the scenarios to measure it in; none: all.
	Only []string `json:"-"`
	// Open opens the library in a process.
	Open libraries.Opener `json:"-"`
}

// Source returns the library's module and version.
func (l Library) Source() string {
	if l.Version == "" {
		return ""
	}
	return " (" + l.Module + " " + strings.TrimPrefix(l.Version, "v") + ")"
}

// The kinds of libraries.
const (
	Ours    = "ours"
	Variant = "variant" // ours with another setting; not compared with others
	Theirs  = "theirs"
	Floor   = "floor" // the bare commands that every lock needs
	Probe   = "probe" // requests that take no lock
)

// All are the libraries, in display order within each family: ours, theirs, and the floors.
var All = slices.Concat(ours(), []Library{
	theirs("redis", libraries.Redislock, "Obtain with LinearBackoff(100ms), as in its examples, and Release"),
	theirs("redis", libraries.Redsync, redsyncHow),
	// Not held: 10,000 renewal loops would each ask all five servers.
	theirs("redlock", libraries.Redlock, redsyncHow).only("cycle", "own-", "contend-", "handoff-", "takeover", "waiters-"),
	theirs("redis", libraries.Rueidislock, "WithContext with NoLoopTracking, its fastest setting, TryNextAfter of 1s, and the returned cancel"),
	theirs("redis", libraries.RueidislockTracking, "WithContext with loop tracking, its default, TryNextAfter of 1s, and the returned cancel").only("cycle", "own-"),
	theirs("etcd", libraries.EtcdSpareSessions,
		"Lock and Unlock; a session for each goroutine that wants the same name, since a session does not exclude itself"),
	{
		Family: "etcd", Name: "RWMutex", Kind: Theirs, Module: etcdModule, Beside: true, Open: openRWMutexes,
		How: "RLock and RUnlock of etcd's experimental recipe, on one session", Only: []string{"beside-"},
	},
	theirs("zookeeper", libraries.ZKLock, "NewLock, Lock and Unlock on one session"),

	{
		Family: "redis", Name: "PING twice", Kind: Probe, Module: goredisModule, Open: openPings,
		How: "two round trips that do nothing", Only: []string{"cycle"},
	},
	floor("redis", "SET NX, EVALSHA", goredisModule, openBareRedis, "SET NX PX, and EVALSHA of a compare-and-delete"),
	floor("redis", "PUBLISH, SET NX", goredisModule, openPublished,
		"DEL and PUBLISH in one pipeline; a subscriber then sends SET NX").only("handoff-other"),
	floor("etcd", "Txn, Delete", etcdModule, openBareEtcd, "a Txn that puts a key if it does not exist, on one lease, and a Delete"),
	floor("etcd", "watch, Txn", etcdModule, openBareEtcd, "Delete; a client with an open watch then sends the Txn").only("handoff-other"),
	floor("zookeeper", "create, delete", zkModule, openBareZK, "create of an ephemeral node, and delete"),
	floor("zookeeper", "exists, create", zkModule, openBareZK, "delete; a client with a watch from exists then sends the create").only("handoff-other"),
	floor("postgres", "pg_advisory_lock", pgxModule, openAdvisory,
		"pg_try_advisory_lock, or pg_advisory_lock to wait, and pg_advisory_unlock, with a connection for each hold and each waiter").only(),
	floor("mysql", "GET_LOCK", "github.com/go-sql-driver/mysql", openNamed,
		"GET_LOCK and RELEASE_LOCK, with a connection for each hold and each waiter").only(),
	floor("table", "INSERT, UPDATE", pgxModule, openRows,
		"an INSERT of a row, or an UPDATE if the name is free, and an UPDATE that compares its owner"),
	floor("nats", "publish twice", "github.com/nats-io/nats.go", openBareNATS,
		"a publish of a key with a TTL that expects the key's last revision, and a publish of a marker that replaces it"),
})

const (
	goredisModule = "github.com/redis/go-redis/v9"
	etcdModule    = "go.etcd.io/etcd/client/v3"
	zkModule      = "github.com/go-zookeeper/zk"
	pgxModule     = "github.com/jackc/pgx/v5"

	redsyncHow = "NewMutex with any number of tries, LockContext and UnlockContext"
)

// floor makes a Library of bare commands. Most floors cannot wait for a name.
func floor(family, name, module string, open libraries.Opener, how string) Library {
	return Library{Family: family, Name: name, Kind: Floor, Module: module, How: how, Open: open}.only("cycle", "own-", "beside-1")
}

func theirs(family string, s libraries.Subject, how string) Library {
	l := Library{Family: family, Name: s.Library, Kind: Theirs, Module: s.Module, How: how, Open: s.Open}
	if s.Caps.Ends == driver.EndsTTL {
		l.Renewal = "a loop for each lock, which its user writes"
	}
	return l
}

// only restricts a library to scenarios. Without any, it takes part in all.
func (l Library) only(scenarios ...string) Library {
	l.Only = scenarios
	return l
}

// In reports whether it takes part in a scenario.
func (l Library) In(scenario string) bool {
	return len(l.Only) == 0 || slices.ContainsFunc(l.Only, func(prefix string) bool { return strings.HasPrefix(scenario, prefix) })
}

// WorkerMain must be the first call in main and in TestMain: see [measure.WorkerMain].
func WorkerMain() {
	libraries.PoolSize = 64 // with the default, goroutines would wait for connections, some until they time out
	measure.WorkerMain(func(ctx context.Context, c measure.Config) (library.Client, error) {
		i := slices.IndexFunc(All, func(l Library) bool { return l.Family == c.Family && l.Name == c.Library })
		if i < 0 {
			return library.Client{}, errors.New("there is no library " + c.Library)
		}
		return All[i].Open(ctx, c.URL, c.TTL)
	})
}

// held returns the hold of a floor, which release ends, unless its claim failed.
func held(release func(context.Context) error, err error) (*library.Hold, error) {
	return &library.Hold{Release: release}, err
}

// claimed calls try once, or until the name is free if wait is set. await returns when it may be.
func claimed(wait bool, try, await func() error) error {
	err := try()
	for wait && errors.Is(err, driver.ErrHeld) {
		if err = await(); err == nil {
			err = try()
		}
	}
	return err
}
