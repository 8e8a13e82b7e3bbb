// Package lib has the ways to take locks that bench measures. They are lockport's, other libraries' (from the referee's package libraries), and the
// floors. A floor is the bare commands through the same clients.
package lib

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/referee/libraries"
)

// Library is one way to take locks on one family of servers. Results store the fields that are meant for readers.
type Library struct {
	Family, Name string // tables show Name
	Kind         string // one of Ours, Variant, Theirs, Floor
	Module       string // the Go module whose version is shown; empty for lockport
	Version      string // the version of Module, in results
	How          string // the calls, and settings other than the defaults
	Renewal      string // what keeps a hold beyond the TTL
	// Waits: Acquire can wait for a name. Other libraries are left out of scenarios with waiters.
	Waits bool `json:"-"`
	// Beside: holders of a name do not exclude each other.
	Beside bool `json:"-"`
	// Only are prefixes of the names of the scenarios to measure it in; none: all.
	Only []string `json:"-"`
	// Open opens the library in a process. ctx bounds the opening alone.
	Open opener `json:"-"`
}

type opener = func(ctx context.Context, c measure.Config) (measure.Locker, error)

// Source returns the library's module and version.
func (l Library) Source() string {
	if l.Version == "" {
		return ""
	}
	return " (" + l.Module + " " + strings.TrimPrefix(l.Version, "v") + ")"
}

// Looped reports whether the user must write a renewal loop for the library's locks.
func (l Library) Looped() bool { return strings.Contains(l.Renewal, "loop") }

// The kinds of libraries.
const (
	Ours    = "ours"
	Variant = "variant" // ours with another setting; not compared with others
	Theirs  = "theirs"
	Floor   = "floor" // the bare commands that every lock needs
)

// What renews a hold. Looped searches for "loop".
const (
	automatic      = "itself"
	loopEach       = "a loop for each lock, which its user writes"
	sessionRenewal = "the session" // or the connection, which needs no renewal
	noRenewal      = "nothing"
)

// All are the libraries, in display order within each family: ours, theirs, and the floors.
var All = slices.Concat(ours(), []Library{
	theirs("redis", libraries.Redislock, loopEach, "Obtain with LinearBackoff(100ms), as in its examples, and Release"),
	theirs("redis", libraries.Redsync, loopEach, redsyncHow),
	// Not held: 10,000 renewal loops would each ask all five servers.
	theirs("redlock", libraries.Redlock, loopEach, redsyncHow).only("cycle", "own-", "contend-", "handoff-", "takeover", "waiters-"),
	theirs("redis", libraries.Rueidislock, automatic,
		"WithContext with NoLoopTracking, its fastest setting, TryNextAfter of 1s, and the returned cancel"),
	theirs("redis", libraries.RueidislockTracking, automatic,
		"WithContext with loop tracking, its default, TryNextAfter of 1s, and the returned cancel").only("cycle", "own-"),
	theirs("etcd", libraries.EtcdSpareSessions, sessionRenewal,
		"Lock and Unlock; a session for each goroutine that wants the same name, since a session does not exclude itself"),
	{
		Family: "etcd", Name: "RWMutex", Kind: Theirs, Module: etcdModule, Renewal: sessionRenewal, Waits: true, Beside: true, Open: oneName(openRWMutexes),
		How: "RLock and RUnlock of etcd's experimental recipe, on one session", Only: []string{"beside-"},
	},
	theirs("zookeeper", libraries.ZKLock, sessionRenewal, "NewLock, Lock and Unlock on one session"),

	floor("redis", Pings, goredisModule, noRenewal, openPings, "two round trips that do nothing").only("cycle"),
	floor("redis", "SET NX, EVALSHA", goredisModule, noRenewal, openBareRedis, "SET NX PX, and EVALSHA of a compare-and-delete"),
	floor("redis", "PUBLISH, SET NX", goredisModule, noRenewal, openPublished,
		"DEL and PUBLISH in one pipeline; a subscriber then sends SET NX").waits("handoff-other"),
	floor("etcd", "Txn, Delete", etcdModule, sessionRenewal, openBareEtcd, "a Txn that puts a key if it does not exist, on one lease, and a Delete"),
	floor("etcd", "watch, Txn", etcdModule, sessionRenewal, openBareEtcd, "Delete; a client with an open watch then sends the Txn").waits("handoff-other"),
	floor("zookeeper", "create, delete", zkModule, sessionRenewal, openBareZK, "create of an ephemeral node, and delete"),
	floor("zookeeper", "exists, create", zkModule, sessionRenewal, openBareZK,
		"delete; a client with a watch from exists then sends the create").waits("handoff-other"),
	floor("postgres", "pg_advisory_lock", pgxModule, sessionRenewal, openAdvisory,
		"pg_try_advisory_lock, or pg_advisory_lock to wait, and pg_advisory_unlock, with a connection for each hold and each waiter").waits(),
	floor("mysql", "GET_LOCK", "github.com/go-sql-driver/mysql", sessionRenewal, openNamed,
		"GET_LOCK and RELEASE_LOCK, with a connection for each hold and each waiter").waits(),
	floor("table", "INSERT, UPDATE", pgxModule, noRenewal, openRows,
		"an INSERT of a row, or an UPDATE if the name is free, and an UPDATE that compares its owner"),
	floor("nats", "publish twice", "github.com/nats-io/nats.go", noRenewal, openBareNATS,
		"a publish of a key with a TTL that expects the key's last revision, and a publish of a marker that replaces it"),
})

const (
	goredisModule = "github.com/redis/go-redis/v9"
	etcdModule    = "go.etcd.io/etcd/client/v3"
	zkModule      = "github.com/go-zookeeper/zk"
	pgxModule     = "github.com/jackc/pgx/v5"

	redsyncHow = "NewMutex with any number of tries, LockContext and UnlockContext"

	// Pings is the library that takes no lock and only makes requests.
	Pings = "PING twice"
)

// floor makes a Library of bare commands.
func floor(family, name, module, renewal string, open opener, how string) Library {
	return Library{Family: family, Name: name, Kind: Floor, Module: module, Renewal: renewal, How: how, Open: open}
}

// theirs makes a Library of a subject of the referee.
func theirs(family string, s libraries.Subject, renewal, how string) Library {
	l := Library{Family: family, Name: s.Library, Kind: Theirs, Module: s.Module, Renewal: renewal, How: how, Waits: true}
	l.Open = func(ctx context.Context, c measure.Config) (measure.Locker, error) {
		client, err := s.Open(ctx, c.URL, libraries.Settings{TTL: c.TTL, Connections: poolSize})
		return measure.Locker{Close: client.Close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
			hold, err := client.Take(ctx, library.Claim{Name: name, TTL: c.TTL, Wait: wait})
			if err != nil {
				return nil, err
			}
			return loop(c, hold), nil
		}}, err
	}
	return l
}

// only restricts a library to scenarios, and waits says that it can wait in them.
func (l Library) only(scenarios ...string) Library {
	l.Only = scenarios
	return l
}

func (l Library) waits(scenarios ...string) Library {
	l.Waits = true
	return l.only(scenarios...)
}

// Find returns the library of that name.
func Find(family, name string) (l Library, found bool) {
	for _, l := range All {
		if l.Family == family && l.Name == name {
			return l, true
		}
	}
	return l, false
}

// In reports whether it takes part in a scenario.
func (l Library) In(scenario string) bool {
	return len(l.Only) == 0 || slices.ContainsFunc(l.Only, func(prefix string) bool { return strings.HasPrefix(scenario, prefix) })
}

// WorkerMain must be the first call in main and in TestMain: see [measure.WorkerMain].
func WorkerMain() {
	measure.WorkerMain(func(ctx context.Context, c measure.Config) (measure.Locker, error) {
		l, found := Find(c.Family, c.Library)
		if !found {
			return measure.Locker{}, errors.New("there is no library " + c.Library)
		}
		return l.Open(ctx, c)
	})
}

func either[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// heldIf returns lockport.ErrHeld if held, and otherwise err.
func heldIf(held bool, err error) error { return either(held, lockport.ErrHeld, err) }

// unlessHeld returns the outcome of a release that reports whether the lock was held.
func unlessHeld(held bool, err error) error {
	return either(err == nil && !held, errors.New("it was not held"), err)
}

// untilTaken calls try until the name is free. await returns when it may be.
func untilTaken(try, await func() error) error {
	for {
		if err := try(); !errors.Is(err, lockport.ErrHeld) {
			return err
		}
		if err := await(); err != nil {
			return err
		}
	}
}

// loop is the renewal loop that a user of the library would write, if c asks for it. It extends the lock at a third of the TTL until it is
// released.
func loop(c measure.Config, hold *library.Hold) measure.Release {
	if !c.Loop || hold.Renew == nil {
		return hold.Release
	}
	ctx, stop := context.WithCancel(context.Background())
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for tick := time.NewTicker(c.TTL / 3); ; {
			select {
			case <-tick.C:
				_, _ = hold.Renew(ctx) // the next tick tries again
			case <-ctx.Done():
				return
			}
		}
	})
	return func(ctx context.Context) error {
		stop()
		renewing.Wait()
		return hold.Release(ctx)
	}
}
