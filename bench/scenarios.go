package main

import (
	"fmt"
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

// quick is the plan for a check that everything works.
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
}

// scenarios returns all scenarios, in the order in which they are measured.
func scenarios(p plan) (all []scenario) {
	waits := func(l lib.Library) bool { return l.Waits }
	add := func(s measure.Scenario, takes func(lib.Library) bool) {
		s.Turns, s.Limit = p.turns, p.limit
		all = append(all, scenario{s, func(l lib.Library) bool { return l.In(s.Name) && takes(l) }})
	}
	for _, c := range []struct {
		name, title string
		n           int
	}{{"cycle", "one goroutine acquires and releases an uncontended name", 1}, {"own-64", "64 goroutines, each with its own name", 64}} {
		add(measure.Scenario{
			Name: c.name, Title: c.title, Do: measure.Cycle, N: c.n, Samples: mostCycles, For: p.cycle, TTL: ttl,
		}, func(lib.Library) bool { return true })
	}
	for _, c := range []struct {
		name, title string
		n           int
	}{{"beside-1", "one goroutine acquires a name exclusively, as a reader, or with a permit", 1}, {"beside-64", "64 goroutines of one process that share one name", 64}} {
		add(measure.Scenario{
			Name: c.name, Title: c.title, Do: measure.Cycle, N: c.n, Samples: mostCycles, For: p.cycle, TTL: ttl,
		}, func(l lib.Library) bool { return l.Beside || c.n == 1 && l.Kind != lib.Variant })
	}
	for _, c := range []struct {
		name, title  string
		processes, n int
	}{
		{"contend-8", "8 goroutines, one name", 1, 8}, {"contend-64", "64 goroutines, one name", 1, 64},
		{"contend-512", "512 goroutines, one name", 1, 512}, {"contend-4x16", "4 processes of 16 goroutines, one name", 4, 64},
	} {
		add(measure.Scenario{
			Name: c.name, Title: c.title, Do: measure.Contend, Processes: c.processes, N: c.n, For: p.contend, Grace: 2 * time.Second, TTL: ttl,
		}, waits)
	}
	handOff := measure.Scenario{Do: measure.HandOff, Samples: p.handOff, For: pause, TTL: ttl}
	handOff.Name, handOff.Title, handOff.Processes = "handoff-other", "from a release to the grant of a waiter in another process", 2
	add(handOff, waits)
	handOff.Name, handOff.Title, handOff.Processes = "handoff-same", "from a release to the grant of a waiter in the same process", 1
	add(handOff, waits)
	add(measure.Scenario{
		Name: "takeover", Title: "from a holder's SIGKILL to the grant of a waiter in another process",
		Do: measure.Takeover, Processes: 2, N: takeoverLocks, TTL: deadTTL,
	}, waits)
	// Lockport is measured with every number, other libraries with the second: some poll for each waiter. Floors would need a connection for each.
	crowd := func(i int) func(lib.Library) bool {
		return func(l lib.Library) bool { return l.Kind == lib.Ours || l.Kind == lib.Theirs && i == 1 }
	}
	for i, n := range p.waiters {
		title := fmt.Sprint(n, " goroutines of one process, waiting for a name that another process holds")
		if n == 1 {
			title = "one goroutine, waiting for a name that another process holds"
		}
		add(measure.Scenario{Name: fmt.Sprint("waiters-", n), Title: title, Do: measure.Wait, Processes: 1, N: n, For: time.Second, TTL: waitedTTL}, crowd(i))
	}
	for i, n := range p.held {
		add(measure.Scenario{
			Name: fmt.Sprint("held-", n), Title: fmt.Sprint(n, " locks of one process, held and renewed"),
			Do: measure.Hold, Processes: 1, N: n, For: heldTTL, TTL: heldTTL,
		}, crowd(i))
	}
	return all
}
