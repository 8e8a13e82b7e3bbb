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
	Idle    time.Duration // for which requests of those who wait are counted
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

// notShown is the reason of a library which is not even mentioned.
const notShown = "-"

// scenarios are all, in the order in which they are measured.
func scenarios(p Plan) []scenario {
	// What a turn takes beside the time for which it is measured, of which an estimate of the time left is made.
	const begins, ends = 200 * time.Millisecond, 200 * time.Millisecond
	cycling, contending := p.Cycle+begins, p.Contend+begins+ends
	sample := 2 * settleTime
	all := []scenario{
		{"cycle", "one goroutine takes a name and releases it, that nobody else wants", anybody, openCycle(1), cycling},
		{"own-64", "64 goroutines, each its own name", anybody, openCycle(64), cycling},
		{"contend-8", "8 goroutines, one name", waits, openContend(1, 8), contending},
		{"contend-64", "64 goroutines, one name", waits, openContend(1, 64), contending},
		{"contend-512", "512 goroutines, one name", waits, openContend(1, 512), contending},
		{"contend-4x16", "4 processes of 16 goroutines, one name", waits, openContend(4, 16), contending},
		{"mixed-64", "64 goroutines, and another process with " + stranger + " that wants the same name", oursOnRedis, openForeign(64), contending},
		{"handoff-other", "from a release to the grant of a waiter in another process", waits, openHandOffOther, begins + time.Duration(p.HandOff)*sample},
		{"handoff-same", "from a release to the grant of a waiter in the same process", waits, openHandOffSame, begins + time.Duration(p.HandOff)*sample},
	}
	for _, n := range []int{2, 64, 512} {
		all = append(all, scenario{
			fmt.Sprint("queue-", n), fmt.Sprint("from a release to the grant of a waiter in another process, where ", n, " wait in ", min(n, 4), " processes"),
			queues, openQueue(n), contending - p.Contend/2,
		})
	}
	for _, n := range p.Waiters {
		all = append(all, scenario{
			fmt.Sprint("waiters-", n), many(n, "goroutine") + " of one process, waiting for a name that another process has",
			func(l lib.Library) string { return fewer(n, l.MostWaiters, l, oneIsOurs(n, l, waits(l))) }, openWaiters(n),
			begins + 3*settleStep + p.Idle,
		})
	}
	for _, n := range p.Held {
		all = append(all, scenario{
			fmt.Sprint("held-", n), fmt.Sprint(n, " locks of one process, held and renewed"),
			func(l lib.Library) string { return fewer(n, l.MostHeld, l, oneIsOurs(n, l, held(l))) }, openHeld(n),
			begins + 3*settleStep + p.HeldTTL + ends,
		})
	}
	return append(all, scenario{
		"takeover", "from the kill -9 of a holder to the grant of a waiter in another process", waits, openTakeover, begins + 3*p.DeadTTL/2,
	})
}

// Scenarios are the names of what is measured.
func Scenarios(p Plan) (names []string) {
	for _, s := range scenarios(p) {
		names = append(names, s.name)
	}
	return names
}

// many is a number of things.
func many(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprint(n, " ", what, "s")
}

// anybody leaves nobody out.
func anybody(lib.Library) string { return "" }

func waits(l lib.Library) string {
	if !l.Waits {
		return notShown
	}
	return ""
}

// queues leaves out those who ask again and again: they have no queue.
func queues(l lib.Library) string {
	if l.Polls {
		return notShown
	}
	return waits(l)
}

// held leaves out the bare commands too: what holds them is the session, which libraries have as well.
func held(l lib.Library) string {
	if l.Kind == lib.Floor || l.Renewal == lib.Never {
		return notShown
	}
	return ""
}

// few is a number of which others have the same for each as of many, which is measured.
const few = 10

// oneIsOurs leaves others out where only our own growth is looked at.
func oneIsOurs(n int, l lib.Library, why string) string {
	if n <= few && l.Kind != lib.Ours {
		return notShown
	}
	return why
}

// fewer leaves out what cannot be had so often.
func fewer(n, most int, l lib.Library, why string) string {
	if why == "" && most > 0 && n > most {
		return fmt.Sprintf("not with more than %d: %s", most, l.Most)
	}
	return why
}
