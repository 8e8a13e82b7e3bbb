package zookeeper

import (
	"sort"
	"time"
)

// ledger remembers what was sent on one connection and has been answered: whatever arrives touches the session at the server that it
// goes to, some time between these two. What was sent within grain of another counts as that one, the earlier.
type ledger struct {
	grain  time.Duration
	visits []visit // both times rise
}

// visit is something that was sent, and was answered.
type visit struct{ sent, answered time.Time }

// add remembers a visit.
func (g *ledger) add(v visit) {
	if n := len(g.visits); n == 0 || v.sent.Sub(g.visits[n-1].sent) >= g.grain {
		g.visits = append(g.visits, v)
	}
}

// latest returns when the latest visit that was answered by t was sent, and forgets those before it. Zero: there is none.
func (g *ledger) latest(t time.Time) time.Time {
	i := sort.Search(len(g.visits), func(i int) bool { return g.visits[i].answered.After(t) })
	if i == 0 {
		return time.Time{}
	}
	g.visits = append(g.visits[:0], g.visits[i-1:]...)
	return g.visits[0].sent
}

// forget drops what was sent before t, so that an idle connection's ledger does not grow.
func (g *ledger) forget(t time.Time) {
	if i := sort.Search(len(g.visits), func(i int) bool { return !g.visits[i].sent.Before(t) }); i > 64 {
		g.visits = append(g.visits[:0], g.visits[i:]...)
	}
}
