// Package linear judges a history of holds by linearizability (M. Herlihy, J. Wing, Linearizability, 1990), with porcupine: is there an order in
// which a correct lock, with rising tokens, could have produced the history? This finds more than overlapping belief: a lock that the server granted
// again too early is a mistake even if its first holder was killed, or had just stopped believing.
package linear

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/history"
)

// Result is what [Check] found. The zero value is not Ok: only a search that found an order is.
type Result struct {
	// Ok: there is an order. Unknown: the time limit came first. Neither: there is none.
	Ok, Unknown bool
	// Message explains to people, if not Ok, which lock it was, the longest order, and which holds do not fit in.
	Message string
}

// Check judges each lock of h separately, for at most limit. Without tokens it judges exclusion alone. Safe for concurrent use.
func Check(h *history.History, r Rules, limit time.Duration) Result {
	deadline := time.Now().Add(limit)
	byName := make(map[string][]*history.Span)
	for _, s := range h.Spans {
		byName[s.Name] = append(byName[s.Name], s)
	}
	res := Result{Ok: true}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		ops := r.operations(h, byName[name])
		switch porcupine.CheckOperationsTimeout(model, ops, max(time.Until(deadline), 1)) { // 0 would mean no limit
		case porcupine.Illegal:
			return Result{Message: explain(h, name, ops, limit)}
		case porcupine.Unknown:
			res = Result{Unknown: true, Message: fmt.Sprintf("%q: linearizability was not decided in %v, with %d holds", name, limit, len(byName[name]))}
		}
	}
	return res
}

// lock is the state of a correct lock: its holders, sorted by older, and the greatest token granted. readers and others count the ranked holds that
// have begun. got is when the last of them was got, if it is a reader's.
type lock struct {
	holders         []*history.Span
	last            lockport.Token
	readers, others int
	got             history.Instant
}

// step is an operation: a hold begins or ends.
type step struct {
	hold *history.Span
	ends bool
	// void says that the hold may not count: it was handed on inside a process after the server had ended the claim, but before the process was told.
	void bool
	// readers and others are how many holds with smaller tokens must have begun before this one: see rank.
	readers, others int
}

// ranked says that the token tells which holds began before this one. If a permit was handed on, its token is older than the hold.
func (s *step) ranked() bool {
	return s.hold.Token != 0 && !s.void && (s.hold.Mode.Permits == 0 || !s.hold.HandedOn())
}

// rank counts, for each step that begins a hold, those that must come before it. That ends the search of a wrong order at once.
func rank(begin []*step) {
	for _, s := range begin {
		for _, o := range begin {
			switch {
			case !o.ranked() || o.hold.Token >= s.hold.Token:
			case o.hold.Mode.Shared:
				s.readers++
			default:
				s.others++
			}
		}
	}
}

// admits says that the hold of s may begin. A reader begins after the writers with smaller tokens and before all others; a writer also begins after
// such readers. Readers without a writer between them begin in the order of Got: they never exclude each other, so if there is any order, there is
// such a one.
func (l lock) admits(s *step) bool {
	m := s.hold.Mode
	switch {
	case m.Permits > 0 && len(l.holders) >= m.Permits, m.Permits == 0 && len(l.holders) > 0 && !(m.Shared && l.holders[0].Mode.Shared):
		return false
	case s.ranked():
		return l.others == s.others && (m.Shared && s.hold.Got >= l.got || l.readers == s.readers && !m.Shared)
	}
	return s.hold.Token == 0 || m.Permits > 0 || s.hold.Token > l.last
}

// older orders holders.
func older(a, b *history.Span) int {
	return cmp.Or(cmp.Compare(a.Got, b.Got), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Op, b.Op))
}

// with returns l after the hold of s has begun.
func (l lock) with(s *step) lock {
	i, _ := slices.BinarySearchFunc(l.holders, s.hold, older)
	l.holders = slices.Insert(slices.Clone(l.holders), i, s.hold)
	l.last = max(l.last, s.hold.Token)
	switch {
	case !s.ranked():
	case s.hold.Mode.Shared:
		l.readers, l.got = l.readers+1, s.hold.Got
	default:
		l.others, l.got = l.others+1, 0
	}
	return l
}

// model is a correct lock.
var model = porcupine.Model{
	Init: func() any { return lock{} },
	Step: func(state, input, _ any) (bool, any) {
		l, s := state.(lock), input.(*step)
		i := slices.Index(l.holders, s.hold)
		switch {
		case s.ends && i >= 0:
			l.holders = slices.Delete(slices.Clone(l.holders), i, i+1)
			return true, l
		case !s.ends && l.admits(s):
			return true, l.with(s)
		}
		return s.void, l // a hold ends exactly once, so it is always clear what is still to come
	},
	Equal: func(a, b any) bool {
		l, o := a.(lock), b.(lock)
		return slices.Equal(l.holders, o.holders) && l.last == o.last && l.readers == o.readers && l.others == o.others && l.got == o.got
	},
}

// explain repeats the search, and describes the end of the longest order and the holds that do not fit in.
func explain(h *history.History, name string, ops []porcupine.Operation, limit time.Duration) string {
	_, info := porcupine.CheckOperationsVerbose(model, ops, limit)
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	text := fmt.Sprintf("%q is not linearizable: no correct lock with rising tokens could have done this. The longest order has %d steps", name, len(longest))
	const shown = 6
	for _, op := range longest[max(0, len(longest)-shown):] {
		text += "\n  then " + op.Input.(*step).describe(h)
	}
	rest := slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool {
		return op.Input.(*step).ends || slices.ContainsFunc(longest, func(o porcupine.Operation) bool { return o.Input == op.Input })
	})
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
	for _, op := range rest[:min(2, len(rest))] {
		text += fmt.Sprintf("\n  does not fit in: %s\n  meanwhile: %s", op.Input.(*step).describe(h), h.Notes(h.Start, history.Instant(op.Return)))
	}
	return text
}

func (s *step) describe(h *history.History) string {
	if s.ends {
		return s.hold.String() + " ends"
	}
	return h.Line(s.hold)
}
