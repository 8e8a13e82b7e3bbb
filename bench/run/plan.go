package run

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/bench/lib"
)

// Plan is for how long, and with how many, scenarios are measured.
type Plan struct {
	Cycle   time.Duration // for each turn of uncontended cycles
	Contend time.Duration // for each turn of contention
	Grace   time.Duration // that those who still wait at its end have
	HandOff int           // samples in a turn
	Idle    time.Duration // for which requests of those who wait are counted
	Waiters [3]int
	Held    int
	HeldTTL time.Duration // requests are counted for as long
	DeadTTL time.Duration // of a holder that is killed
	// Limit is how long a turn may take: some libraries never come back from a request that took too long.
	Limit time.Duration
}

// Full is what is written down.
var Full = Plan{
	Cycle: 2 * time.Second, Contend: 3 * time.Second, Grace: 10 * time.Second, HandOff: 30, Idle: 5 * time.Second, Waiters: [3]int{100, 1000, 10000},
	Held: 10000, HeldTTL: 15 * time.Second, DeadTTL: 10 * time.Second, Limit: 2 * time.Minute,
}

// Quick shows that all works.
var Quick = Plan{
	Cycle: 100 * time.Millisecond, Contend: 300 * time.Millisecond, Grace: 5 * time.Second, HandOff: 3, Idle: time.Second, Waiters: [3]int{10, 30, 100},
	Held: 300, HeldTTL: 3 * time.Second, DeadTTL: 2 * time.Second, Limit: 30 * time.Second,
}

const (
	// ttl is lockport's default.
	ttl = 15 * time.Second
	// longTTL is that of what is to stay while it is waited for.
	longTTL = 60 * time.Second
)

// notShown is the reason of a library which is not even mentioned.
const notShown = "-"

// scenarios are all, in the order in which they are measured.
func scenarios(p Plan) []scenario {
	all := []scenario{
		{"cycle", "one goroutine takes a name and releases it, that nobody else wants", plainOnly, openCycle(1)},
		{"own-64", "64 goroutines, each its own name", plainOnly, openCycle(64)},
		{"contend-8", "8 goroutines, one name", waitsOnly, openContend(1, 8)},
		{"contend-64", "64 goroutines, one name", waitsOnly, openContend(1, 64)},
		{"contend-512", "512 goroutines, one name", waitsOnly, openContend(1, 512)},
		{"contend-4x16", "4 processes of 16 goroutines, one name", waitsOnly, openContend(4, 16)},
		{"mixed-64", "64 goroutines, and another process with " + stranger + " that wants the same name", oursOnRedis, openForeign(64)},
		{"handoff-other", "from a release to the grant of a waiter in another process", waitsPlainly, openHandOffOther},
		{"handoff-same", "from a release to the grant of a waiter in the same process", waitsPlainly, openHandOffSame},
	}
	for _, n := range p.Waiters {
		all = append(all, scenario{
			fmt.Sprint("waiters-", n), fmt.Sprint(n, " goroutines of one process wait for a name that another process has"),
			func(l lib.Library) string { return fewer(n, l.MostWaiters, l, waitsPlainly(l)) }, openWaiters(n),
		})
	}
	for _, n := range slices.Compact([]int{min(p.Held, 100), p.Held}) {
		all = append(all, scenario{
			fmt.Sprint("held-", n), fmt.Sprint(n, " locks of one process, held and renewed"),
			func(l lib.Library) string { return fewer(n, l.MostHeld, l, heldOnly(l)) }, openHeld(n),
		})
	}
	return append(all, scenario{"takeover", "from the kill -9 of a holder to the grant of a waiter in another process", waitsPlainly, openTakeover})
}

// Scenarios are the names of what is measured.
func Scenarios(p Plan) (names []string) {
	for _, s := range scenarios(p) {
		names = append(names, s.name)
	}
	return names
}

// plainOnly leaves out what differs from another library under contention alone.
func plainOnly(l lib.Library) string {
	if l.OnlyContended {
		return notShown
	}
	return ""
}

func waitsOnly(l lib.Library) string {
	if !l.Waits {
		return notShown
	}
	return ""
}

func waitsPlainly(l lib.Library) string {
	if !l.Waits || l.OnlyContended {
		return notShown
	}
	return ""
}

func heldOnly(l lib.Library) string {
	if l.Nothing || l.OnlyContended || l.Renewal == lib.Never {
		return notShown
	}
	return ""
}

// fewer leaves out what cannot be had so often.
func fewer(n, most int, l lib.Library, why string) string {
	if why == "" && most > 0 && n > most {
		return fmt.Sprintf("not with more than %d: %s", most, l.Most)
	}
	return why
}
