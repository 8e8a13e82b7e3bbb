// Package lib has the ways to take locks that bench measures. They are lockport's, other libraries' (from the referee's package libraries), and the
// floors. A floor is the bare commands through the same clients.
package lib

import (
	"cmp"
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
	Open func(ctx context.Context, c measure.Config) (measure.Locker, error) `json:"-"`
	// Turn replaces Open and the scenario for a library that Go cannot call: it measures one turn.
	Turn func(ctx context.Context, s measure.Scenario, on *measure.Subject, turn int) ([]measure.Figure, error) `json:"-"`
	// NotRun says what Turn lacks, if it cannot run.
	NotRun string `json:"-"`
}

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
var All = slices.Concat(ours(), sharing(), redisson(), []Library{
	theirs(libraries.Redislock, Library{
		Family: "redis", Renewal: loopEach,
		How: "Obtain with LinearBackoff(100ms), as in its examples, and Release",
	}),
	redsyncOn("redis", libraries.Redsync),
	// Not held: 10,000 renewal loops would each ask all five servers.
	redsyncOn("redlock", libraries.Redlock, "cycle", "own-", "contend-", "handoff-", "takeover", "waiters-"),
	theirs(libraries.Rueidislock, Library{
		Family: "redis", Renewal: automatic,
		How: "WithContext with NoLoopTracking, its fastest setting, TryNextAfter of 1s, and the returned cancel",
	}),
	theirs(libraries.RueidislockTracking, Library{
		Family: "redis", Name: "rueidislock, loop tracking", Renewal: automatic,
		How:  "WithContext with loop tracking, its default, TryNextAfter of 1s, and the returned cancel",
		Only: []string{"cycle", "own-"},
	}),
	{
		Family: "redis", Name: Pings, Kind: Floor, Module: goredisModule, Renewal: noRenewal, How: "two round trips that do nothing",
		Only: []string{"cycle"}, Open: openPings,
	},
	{
		Family: "redis", Name: "SET NX, EVALSHA", Kind: Floor, Module: goredisModule, Renewal: noRenewal,
		How: "SET NX PX, and EVALSHA of a compare-and-delete", Open: openBareRedis,
	},
	{
		Family: "redis", Name: "PUBLISH, SET NX", Kind: Floor, Module: goredisModule, Renewal: noRenewal, Waits: true,
		How:  "DEL and PUBLISH in one pipeline; a subscriber then sends SET NX",
		Only: []string{"handoff-other"}, Open: openPublished,
	},
	theirs(libraries.EtcdSpareSessions, Library{
		Family: "etcd", Renewal: sessionRenewal,
		How: "Lock and Unlock; a session for each goroutine that wants the same name, since a session does not exclude itself",
	}),
	{
		Family: "etcd", Name: "Txn, Delete", Kind: Floor, Module: etcdModule, Renewal: sessionRenewal, Open: openBareEtcd,
		How: "a Txn that puts a key if it does not exist, on one lease, and a Delete",
	},
	{
		Family: "etcd", Name: "watch, Txn", Kind: Floor, Module: etcdModule, Renewal: sessionRenewal, Waits: true, Open: openBareEtcd,
		How: "Delete; a client with an open watch then sends the Txn", Only: []string{"handoff-other"},
	},
	theirs(libraries.ZKLock, Library{
		Family: "zookeeper", Renewal: sessionRenewal,
		How: "NewLock, Lock and Unlock on one session",
	}),
	{
		Family: "zookeeper", Name: "create, delete", Kind: Floor, Module: zkModule, Renewal: sessionRenewal, Open: openBareZK,
		How: "create of an ephemeral node, and delete",
	},
	{
		Family: "zookeeper", Name: "exists, create", Kind: Floor, Module: zkModule, Renewal: sessionRenewal, Waits: true, Open: openBareZK,
		How: "delete; a client with a watch from exists then sends the create", Only: []string{"handoff-other"},
	},
	{
		Family: "postgres", Name: "pg_advisory_lock", Kind: Floor, Module: "github.com/jackc/pgx/v5", Renewal: sessionRenewal, Waits: true, Open: openAdvisory,
		How: "pg_try_advisory_lock, or pg_advisory_lock to wait, and pg_advisory_unlock, with a connection for each hold and each waiter",
	},
	{
		Family: "mysql", Name: "GET_LOCK", Kind: Floor, Module: "github.com/go-sql-driver/mysql", Renewal: sessionRenewal, Waits: true, Open: openNamed,
		How: "GET_LOCK and RELEASE_LOCK, with a connection for each hold and each waiter",
	},
	{
		Family: "table", Name: "INSERT, UPDATE", Kind: Floor, Module: "github.com/jackc/pgx/v5", Renewal: noRenewal, Open: openRows,
		How: "an INSERT of a row, or an UPDATE if the name is free, and an UPDATE that compares its owner",
	},
	{
		Family: "nats", Name: "publish twice", Kind: Floor, Module: "github.com/nats-io/nats.go", Renewal: noRenewal, Open: openBareNATS,
		How: "a publish of a key with a TTL that expects the key's last revision, and a publish of a marker that replaces it",
	},
})

const (
	goredisModule = "github.com/redis/go-redis/v9"
	etcdModule    = "go.etcd.io/etcd/client/v3"
	zkModule      = "github.com/go-zookeeper/zk"

	// Pings is the library that takes no lock and only makes requests.
	Pings = "PING twice"
)

// theirs makes a Library of a subject of the referee. l has its other fields.
func theirs(s libraries.Subject, l Library) Library {
	l.Name, l.Kind, l.Module, l.Waits = cmp.Or(l.Name, s.Library), Theirs, s.Module, true
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

func redsyncOn(family string, s libraries.Subject, only ...string) Library {
	return theirs(s, Library{Family: family, Renewal: loopEach, How: "NewMutex with any number of tries, LockContext and UnlockContext", Only: only})
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
