package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/internal/lab/measure"
)

// plan sets the durations and sizes of scenarios.
type plan struct {
	turns   int
	cycle   time.Duration // of a turn of uncontended cycles
	contend time.Duration // of a turn of contention
	handOff int           // samples in a turn
	waiters []int
	held    []int
	limit   time.Duration // of any turn
}

// full is the plan for the page, which needs at least this many turns.
var full = plan{5, 600 * time.Millisecond, 800 * time.Millisecond, 20, []int{1, 1000, 10000}, []int{10, 10000}, time.Minute}

var quick = plan{1, 100 * time.Millisecond, 300 * time.Millisecond, 3, []int{1, 30, 100}, []int{10, 300}, 30 * time.Second}

const (
	ttl           = 15 * time.Second      // lockport's default
	waitedTTL     = 60 * time.Second      // of locks that must outlast their waiters' turn
	heldTTL       = 3 * time.Second       // also the time in which requests of held locks are counted
	deadTTL       = 2 * time.Second       // of a holder that gets killed
	pause         = 30 * time.Millisecond // the shortest hold in hand-offs
	mostCycles    = 400_000               // recorded in a turn: more than any library makes
	takeoverLocks = 4                     // of a process that gets killed: no more than lockport awaits in a SQL server's queue
)

// scenario is a scenario and the libraries that take part.
type scenario struct {
	measure.Scenario
	takes func(l lib.Library) bool
	ttl   time.Duration // of the locks
}

// has reports whether a library takes part.
func (s scenario) has(l lib.Library) bool { return l.In(s.Name) && s.takes(l) }

// scenarios returns all scenarios, in the order in which they are measured. Those of one goroutine are measured on one processor: client and server
// work by turns, and on two the figures would mostly be the time in which the machine wakes an idle processor.
func scenarios(p plan) (onOne, onAll []scenario) {
	cycle := func(name, title string, n int) measure.Scenario {
		shared := strings.HasPrefix(name, "beside-")
		return measure.Scenario{Name: name, Title: title, Do: measure.Cycle, N: n, Samples: mostCycles, For: p.cycle, Shared: shared}
	}
	contend := func(name, title string, processes, n int) measure.Scenario {
		return measure.Scenario{Name: name, Title: title, Do: measure.Contend, Processes: processes, N: n, For: p.contend, Grace: 2 * time.Second}
	}
	handOff := func(name, title string, processes int) measure.Scenario {
		return measure.Scenario{Name: name, Title: title, Do: measure.HandOff, Processes: processes, Samples: p.handOff, For: pause}
	}
	takeover := measure.Scenario{
		Name: "takeover", Title: "from a holder's SIGKILL to the grant of a waiter in another process", Do: measure.Takeover, Processes: 2, N: takeoverLocks,
	}
	every := func(lib.Library) bool { return true }
	onOne = []scenario{
		{cycle("cycle", "one goroutine acquires and releases an uncontended name; client and server share a processor", 1), every, ttl},
		{cycle("beside-1", "the same exclusively, as a reader, or with a permit", 1), every, ttl},
	}
	onAll = []scenario{
		{cycle("own-64", "64 goroutines, each with its own name", 64), every, ttl},
		{cycle("beside-64", "64 goroutines of one process that share one name", 64), func(l lib.Library) bool { return l.Beside }, ttl},
		{contend("contend-8", "8 goroutines, one name", 1, 8), every, ttl},
		{contend("contend-64", "64 goroutines, one name", 1, 64), every, ttl},
		{contend("contend-512", "512 goroutines, one name", 1, 512), every, ttl},
		{contend("contend-4x16", "4 processes of 16 goroutines, one name", 4, 64), every, ttl},
		{handOff("handoff-other", "from a release to the grant of a waiter in another process", 2), every, ttl},
		{handOff("handoff-same", "from a release to the grant of a waiter in the same process", 1), every, ttl},
		{takeover, every, deadTTL},
	}
	// Lockport is measured with every number, other libraries with the second: some poll for each waiter. Floors would need a connection for each.
	crowd := func(s measure.Scenario, ttl time.Duration, numbers []int) {
		for i, n := range numbers {
			one := scenario{s, func(l lib.Library) bool { return l.Kind == lib.Ours || l.Kind == lib.Theirs && i == 1 }, ttl}
			one.Name, one.Title, one.N = fmt.Sprint(s.Name, n), fmt.Sprint(s.Title, n), n
			onAll = append(onAll, one)
		}
	}
	waiting := "goroutines of one process that wait for a name that another process holds: "
	crowd(measure.Scenario{Name: "waiters-", Title: waiting, Do: measure.Wait, For: time.Second}, waitedTTL, p.waiters)
	crowd(measure.Scenario{Name: "held-", Title: "locks of one process, held and renewed: ", Do: measure.Hold, For: heldTTL}, heldTTL, p.held)
	for _, some := range [][]scenario{onOne, onAll} {
		for i := range some {
			some[i].Turns, some[i].Limit = p.turns, p.limit
		}
	}
	return onOne, onAll
}
