package main

import (
	"fmt"
	"time"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/internal/lab/measure"
)

// plan is for how long, and with how many, scenarios are measured.
type plan struct {
	turns   int
	cycle   time.Duration // for each turn of uncontended cycles
	contend time.Duration // for each turn of contention
	handOff int           // samples in a turn
	waiters []int
	held    []int
	limit   time.Duration // how long a turn may take
}

// full is for the page, which has no fewer turns.
var full = plan{5, 600 * time.Millisecond, 800 * time.Millisecond, 20, []int{1, 1000, 10000}, []int{10, 10000}, time.Minute}

// quick shows that all works.
var quick = plan{1, 100 * time.Millisecond, 300 * time.Millisecond, 3, []int{1, 30, 100}, []int{10, 300}, 30 * time.Second}

const (
	ttl           = 15 * time.Second      // lockport's default
	waitedTTL     = 60 * time.Second      // of what is to stay while it is waited for
	heldTTL       = 3 * time.Second       // requests of held locks are counted for as long
	deadTTL       = 2 * time.Second       // of a holder that is killed
	pause         = 30 * time.Millisecond // how long a hold of a hand-off lasts at least
	mostCycles    = 400_000               // that are noted of a turn: more than any library makes
	takeoverLocks = 4                     // of a process that is killed: no more than lockport waits for in a SQL server's own queue
)

// scenario is what is measured of the libraries that take part.
type scenario struct {
	measure.Scenario
	takes func(l lib.Library) bool
	most  func(l lib.Library) int // how many waiters or held locks a library is asked for; 0: any number
}

// scenarios are all, in the order in which they are measured.
func scenarios(p plan) (all []scenario) {
	waits := func(l lib.Library) bool { return l.Waits }
	any := func(lib.Library) int { return 0 }
	add := func(s measure.Scenario, takes func(lib.Library) bool, most func(lib.Library) int) {
		s.Turns, s.Limit = p.turns, p.limit
		all = append(all, scenario{s, func(l lib.Library) bool { return l.In(s.Name) && takes(l) }, most})
	}
	for _, c := range []struct {
		name, title string
		n           int
	}{{"cycle", "one goroutine takes a name and releases it, that nobody else wants", 1}, {"own-64", "64 goroutines, each its own name", 64}} {
		add(measure.Scenario{
			Name: c.name, Title: c.title, Do: measure.Cycle, N: c.n, Samples: mostCycles, For: p.cycle, TTL: ttl, Count: c.n == 1,
		}, func(lib.Library) bool { return true }, any)
	}
	for _, c := range []struct {
		name, title string
		n           int
	}{{"beside-1", "one goroutine takes a name, as a reader or a permit or alone", 1}, {"beside-64", "64 goroutines of one process, beside each other on one name", 64}} {
		add(measure.Scenario{
			Name: c.name, Title: c.title, Do: measure.Cycle, N: c.n, Samples: mostCycles, For: p.cycle, TTL: ttl, Count: c.n == 1,
		}, func(l lib.Library) bool { return l.Beside || c.n == 1 && l.Kind != lib.Variant }, any)
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
		}, waits, any)
	}
	handOff := measure.Scenario{Do: measure.HandOff, Samples: p.handOff, For: pause, TTL: ttl}
	handOff.Name, handOff.Title, handOff.Processes = "handoff-other", "from a release to the grant of a waiter in another process", 2
	add(handOff, waits, any)
	handOff.Name, handOff.Title, handOff.Processes = "handoff-same", "from a release to the grant of a waiter in the same process", 1
	add(handOff, waits, any)
	add(measure.Scenario{
		Name: "takeover", Title: "from the kill -9 of a holder to the grant of a waiter in another process",
		Do: measure.Takeover, Processes: 2, N: takeoverLocks, TTL: deadTTL,
	}, waits, any)
	// Other libraries are left out where so few are measured that only our own growth is looked at.
	many := func(n int, l lib.Library) bool { return n > 10 || l.Kind == lib.Ours }
	for _, n := range p.waiters {
		title := fmt.Sprint(n, " goroutines of one process, waiting for a name that another process has")
		if n == 1 {
			title = "one goroutine, waiting for a name that another process has"
		}
		add(measure.Scenario{Name: fmt.Sprint("waiters-", n), Title: title, Do: measure.Wait, Processes: 1, N: n, For: time.Second, TTL: waitedTTL},
			func(l lib.Library) bool { return l.Waits && many(n, l) }, func(l lib.Library) int { return l.MostWaiters })
	}
	for _, n := range p.held {
		// A session holds the locks of the bare commands, and libraries have one as well.
		add(measure.Scenario{
			Name: fmt.Sprint("held-", n), Title: fmt.Sprint(n, " locks of one process, held and renewed"),
			Do: measure.Hold, Processes: 1, N: n, For: heldTTL, TTL: heldTTL,
		}, func(l lib.Library) bool { return l.Kind != lib.Floor && many(n, l) }, func(l lib.Library) int { return l.MostHeld })
	}
	return all
}
