package zookeeper

import (
	"sort"
	"time"
)

// ledger remembers when something was written to one connection, for as long as it may matter: whatever is written touches the session
// at the server that it goes to. Times closer than grain are one, the earlier.
type ledger struct {
	grain time.Duration
	times []time.Time // rising
}

// add remembers that something is written at t.
func (g *ledger) add(t time.Time) {
	if n := len(g.times); n == 0 || t.Sub(g.times[n-1]) >= g.grain {
		g.times = append(g.times, t)
	}
}

// latest returns the latest time not after t, and forgets those before it. Zero: there is none.
func (g *ledger) latest(t time.Time) time.Time {
	i := sort.Search(len(g.times), func(i int) bool { return g.times[i].After(t) })
	if i == 0 {
		return time.Time{}
	}
	g.times = append(g.times[:0], g.times[i-1:]...)
	return g.times[0]
}

// forget drops what lies before t, so that an idle connection's ledger does not grow.
func (g *ledger) forget(t time.Time) {
	if i := sort.Search(len(g.times), func(i int) bool { return !g.times[i].Before(t) }); i > 64 {
		g.times = append(g.times[:0], g.times[i:]...)
	}
}
