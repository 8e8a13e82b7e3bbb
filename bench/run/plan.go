package run

import (
	"fmt"
	"time"

	"github.com/lockport/lockport/bench/lib"
)

// Plan is for how long, and with how many, scenarios are measured.
type Plan struct {
	Cycle   time.Duration // for each turn of uncontended cycles
	Contend time.Duration // for each turn of contention
	Grace   time.Duration // that those who still wait at its end have
	HandOff int           // samples in a turn
	Idle    time.Duration // for which requests of waiters are counted
	Waiters [3]int
	Held    [2]int
	HeldTTL time.Duration // requests are counted for as long
	DeadTTL time.Duration // of a holder that is killed
	// Limit is how long a turn may take: some libraries never come back from a request that took too long.
	Limit time.Duration
}

// Full is what is written down.
var Full = Plan{
	Cycle: 600 * time.Millisecond, Contend: 800 * time.Millisecond, Grace: 2 * time.Second, HandOff: 20, Idle: time.Second, Waiters: [3]int{1, 1000, 10000},
	Held: [2]int{10, 10000}, HeldTTL: 3 * time.Second, DeadTTL: 2 * time.Second, Limit: time.Minute,
}

// Quick shows that all works.
var Quick = Plan{
	Cycle: 100 * time.Millisecond, Contend: 300 * time.Millisecond, Grace: 2 * time.Second, HandOff: 3, Idle: time.Second, Waiters: [3]int{1, 30, 100},
	Held: [2]int{10, 300}, HeldTTL: 3 * time.Second, DeadTTL: 2 * time.Second, Limit: 30 * time.Second,
}

const (
	// ttl is lockport's default.
	ttl = 15 * time.Second
	// longTTL is that of what is to stay while it is waited for.
	longTTL = 60 * time.Second
)

// scenario is what is measured.
type scenario struct {
	name, title string
	// takes says whether a library is named in the scenario.
	takes func(l lib.Library) bool
	// n is how many are asked of a library, which may be too many for it: waiters or held locks.
	n    int
	open opener
}

// scenarios are all, in the order in which they are measured.
func scenarios(p Plan) []scenario {
	anybody := func(lib.Library) bool { return true }
	waits := func(l lib.Library) bool { return l.Waits }
	// What holds the bare commands' locks is the session, which libraries have as well.
	holds := func(l lib.Library) bool { return l.Kind != lib.Floor && l.Renewal != lib.Never }
	all := []scenario{
		{"cycle", "one goroutine takes a name and releases it, that nobody else wants", anybody, 0, cycles(1)},
		{"own-64", "64 goroutines, each its own name", anybody, 0, cycles(64)},
		{"contend-8", "8 goroutines, one name", waits, 0, contend(1, 8)},
		{"contend-64", "64 goroutines, one name", waits, 0, contend(1, 64)},
		{"contend-512", "512 goroutines, one name", waits, 0, contend(1, 512)},
		{"contend-4x16", "4 processes of 16 goroutines, one name", waits, 0, contend(4, 16)},
		{"handoff-other", "from a release to the grant of a waiter in another process", waits, 0, handOff(2)},
		{"handoff-same", "from a release to the grant of a waiter in the same process", waits, 0, handOff(1)},
		{"takeover", "from the kill -9 of a holder to the grant of a waiter in another process", waits, 0, takeover},
	}
	for _, n := range p.Waiters {
		title := fmt.Sprint(n, " goroutines of one process, waiting for a name that another process has")
		if n == 1 {
			title = "one goroutine, waiting for a name that another process has"
		}
		all = append(all, scenario{fmt.Sprint("waiters-", n), title, few(n, waits), n, waiters(n)})
	}
	for _, n := range p.Held {
		all = append(all, scenario{fmt.Sprint("held-", n), fmt.Sprint(n, " locks of one process, held and renewed"), few(n, holds), n, held(n)})
	}
	return all
}

// few leaves other libraries out where so few are measured that only our own growth is looked at.
func few(n int, takes func(lib.Library) bool) func(lib.Library) bool {
	return func(l lib.Library) bool { return takes(l) && (n > 10 || l.Kind == lib.Ours) }
}

// Scenarios are the names of what is measured.
func Scenarios(p Plan) (names []string) {
	for _, s := range scenarios(p) {
		names = append(names, s.name)
	}
	return names
}
