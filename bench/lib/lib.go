// Package lib has the ways to take locks that are measured: lockport's, those of other people's libraries, which are in the referee's package libraries, and
// the floors, which are the bare commands through the same clients.
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

// Library is one way to take locks on one family of servers. Results store the fields that are for people.
type Library struct {
	Family, Name string // Name is as tables show it
	Kind         string // one of Ours, Variant, Theirs, Floor
	Module       string // the Go module whose version is shown; empty for lockport's own
	Version      string // of Module, in results
	How          string // what is called, and which settings are not the defaults
	Renewal      string // what keeps a hold alive for longer than the TTL
	// Waits: Acquire can wait for a name. Without, the library is left out wherever somebody waits.
	Waits bool `json:"-"`
	// Beside: holders of a name do not exclude each other.
	Beside bool `json:"-"`
	// Only are the beginnings of the names of the scenarios in which there is something to see of it; none: all.
	Only []string `json:"-"`
	// MostWaiters and MostHeld are how many of them it is asked for at most, and WhyMost says why; 0: any number.
	MostWaiters, MostHeld int    `json:"-"`
	WhyMost               string `json:"-"`
	// Open opens it for a process. ctx bounds the opening alone.
	Open func(ctx context.Context, c measure.Config) (measure.Locker, error) `json:"-"`
	// Turn measures a turn of a library that Go cannot call, in place of Open and the scenario.
	Turn func(ctx context.Context, s measure.Scenario, on *measure.Subject, turn int) ([]measure.Figure, error) `json:"-"`
	// NotRun says what is missing for Turn.
	NotRun string `json:"-"`
}

// Source is the library's module and its version.
func (l Library) Source() string {
	if l.Version == "" {
		return ""
	}
	return " (" + l.Module + " " + strings.TrimPrefix(l.Version, "v") + ")"
}

// Looped says that somebody must write the renewals of the library's locks.
func (l Library) Looped() bool { return strings.Contains(l.Renewal, "loop") }

// The kinds of libraries.
const (
	Ours    = "ours"
	Variant = "variant" // ours with another setting, which nobody is compared with
	Theirs  = "theirs"
	Floor   = "floor" // the bare commands, that no lock can do without
)

// What renews a hold.
const (
	itself   = "itself"
	loopEach = "a loop for each lock, which its user writes"
	session  = "the session" // of a connection, which needs none
	nothing  = "nothing"
)

// All are the libraries, each family's in the order in which they are shown: ours, theirs, and the floors.
var All = slices.Concat(ours(), besides(), redisson(), []Library{
	theirs(libraries.Redislock, Library{
		Family: "redis", Renewal: loopEach,
		How:         "Obtain with LinearBackoff(100ms), which is the one of its examples, and Release",
		MostWaiters: 1000, WhyMost: "it asks ten times a second for each waiter",
	}),
	redsyncOn("redis", libraries.Redsync, 0),
	redsyncOn("redlock", libraries.Redlock, 1000), // on five servers each loop asks all of them
	theirs(libraries.Rueidislock, Library{
		Family: "redis", Renewal: itself,
		How: "WithContext with NoLoopTracking, which is its fastest, TryNextAfter of 1s, and the returned cancel",
	}),
	theirs(libraries.RueidislockTracking, Library{
		Family: "redis", Name: "rueidislock, loop tracking", Renewal: itself,
		How:  "WithContext with loop tracking, which is its default, TryNextAfter of 1s, and the returned cancel",
		Only: []string{"cycle", "own-"},
	}),
	{
		Family: "redis", Name: Pings, Kind: Floor, Module: goredisModule, Renewal: nothing, How: "two round trips that do nothing",
		Only: []string{"cycle"}, Open: openPings,
	},
	{
		Family: "redis", Name: "SET NX, EVALSHA", Kind: Floor, Module: goredisModule, Renewal: nothing,
		How: "SET NX PX, and EVALSHA of a compare-and-delete", Open: openBareRedis,
	},
	{
		Family: "redis", Name: "PUBLISH, SET NX", Kind: Floor, Module: goredisModule, Renewal: nothing, Waits: true,
		How:  "DEL and PUBLISH in one pipeline; who has subscribed before sends SET NX",
		Only: []string{"handoff-other"}, Open: openPublished,
	},
	theirs(libraries.EtcdSpareSessions, Library{
		Family: "etcd", Renewal: session,
		How:         "Lock and Unlock; a session for each goroutine that wants the same name, as one session gets in where it already is",
		MostWaiters: 1000, WhyMost: "each takes a session with a lease",
	}),
	{
		Family: "etcd", Name: "Txn, Delete", Kind: Floor, Module: etcdModule, Renewal: session, Open: openBareEtcd,
		How: "a Txn that puts a key which is not there, on one lease, and a Delete",
	},
	{
		Family: "etcd", Name: "watch, Txn", Kind: Floor, Module: etcdModule, Renewal: session, Waits: true, Open: openBareEtcd,
		How: "Delete; who has an open watch sends the Txn", Only: []string{"handoff-other"},
	},
	theirs(libraries.ZKLock, Library{
		Family: "zookeeper", Renewal: session,
		How:         "NewLock, Lock and Unlock on one session",
		MostWaiters: 1000, WhyMost: "each reads the names of all the others",
	}),
	{
		Family: "zookeeper", Name: "create, delete", Kind: Floor, Module: zkModule, Renewal: session, Open: openBareZK,
		How: "create of an ephemeral node, and delete",
	},
	{
		Family: "zookeeper", Name: "exists, create", Kind: Floor, Module: zkModule, Renewal: session, Waits: true, Open: openBareZK,
		How: "delete; who has a watch of exists sends the create", Only: []string{"handoff-other"},
	},
	{
		Family: "postgres", Name: "pg_advisory_lock", Kind: Floor, Module: "github.com/jackc/pgx/v5", Renewal: session, Waits: true, Open: openAdvisory,
		How:         "pg_try_advisory_lock, or where it waits pg_advisory_lock, and pg_advisory_unlock, with a connection for each hold and each waiter",
		MostWaiters: 100, WhyMost: "each takes a connection",
	},
	{
		Family: "mysql", Name: "GET_LOCK", Kind: Floor, Module: "github.com/go-sql-driver/mysql", Renewal: session, Waits: true, Open: openNamed,
		How:         "GET_LOCK and RELEASE_LOCK, with a connection for each hold and each waiter",
		MostWaiters: 100, WhyMost: "each takes a connection",
	},
	{
		Family: "table", Name: "INSERT, UPDATE", Kind: Floor, Module: "github.com/jackc/pgx/v5", Renewal: nothing, Open: openRows,
		How: "an INSERT of a row, or its UPDATE where nobody has the name, and an UPDATE that compares its owner",
	},
	{
		Family: "nats", Name: "publish twice", Kind: Floor, Module: "github.com/nats-io/nats.go", Renewal: nothing, Open: openBareNATS,
		How: "a publish of a key with a TTL that expects the key's last revision, and one of a marker in its place",
	},
})

const (
	goredisModule = "github.com/redis/go-redis/v9"
	etcdModule    = "go.etcd.io/etcd/client/v3"
	zkModule      = "github.com/go-zookeeper/zk"

	// Pings is the library that takes no lock: it only makes requests.
	Pings = "PING twice"
)

// theirs is a library of the list that the referee judges too. l has what is said of it here.
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

func redsyncOn(family string, s libraries.Subject, mostHeld int) Library {
	return theirs(s, Library{
		Family: family, Renewal: loopEach,
		How:         "NewMutex with any number of tries, LockContext and UnlockContext",
		MostWaiters: 1000, MostHeld: mostHeld,
		WhyMost: "it asks every server some seven times a second for each waiter, and three times in a TTL for each lock",
	})
}

// Find is the library of that name.
func Find(family, name string) (l Library, found bool) {
	for _, l := range All {
		if l.Family == family && l.Name == name {
			return l, true
		}
	}
	return l, false
}

// In says whether it takes part in a scenario.
func (l Library) In(scenario string) bool {
	return len(l.Only) == 0 || slices.ContainsFunc(l.Only, func(beginning string) bool { return strings.HasPrefix(scenario, beginning) })
}

// WorkerMain is the first line of main, and of TestMain: see [measure.WorkerMain].
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

// heldIf is err, or that the name is held.
func heldIf(held bool, err error) error { return either(held, lockport.ErrHeld, err) }

// unlessHeld is the outcome of a release that tells whether the lock was held.
func unlessHeld(held bool, err error) error {
	return either(err == nil && !held, errors.New("it was not held"), err)
}

// untilTaken tries until the name is free. await returns when it may be.
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

// loop is the loop that a user of the library would write for a hold, if the configuration asks for it: it extends the lock at a third of the TTL until it is
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
				_, _ = hold.Renew(ctx) // it is tried again, as long as the lock is held
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
