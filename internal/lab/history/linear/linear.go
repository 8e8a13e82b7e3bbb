// Package linear judges a history of holds by linearizability (M. Herlihy, J. Wing, Linearizability, 1990), with porcupine: is there an order in
// which a correct lock, with rising tokens, could have produced the history? This finds more than overlapping belief: a lock that the server granted
// again too early is a mistake even if its first holder was killed, or had just stopped believing.
package linear

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/history"
)

// Check judges each lock of h separately, for at most limit. Without tokens it judges exclusion alone. It returns nil only if it found an order. The
// error explains which lock it was, the longest order and which holds do not fit in, or that limit came first. Safe for concurrent use.
func Check(h *history.History, r Rules, limit time.Duration) (err error) {
	deadline := time.Now().Add(limit)
	byName := make(map[string][]*history.Span)
	for _, s := range h.Spans {
		byName[s.Name] = append(byName[s.Name], s)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		ops := r.operations(h, byName[name])
		rank(begins(ops))
		switch porcupine.CheckOperationsTimeout(model, ops, max(time.Until(deadline), 1)) { // 0 would mean no limit
		case porcupine.Illegal:
			return explain(h, name, ops, limit)
		case porcupine.Unknown:
			err = fmt.Errorf("%q: linearizability was not decided in %v, with %d holds", name, limit, len(byName[name]))
		}
	}
	return err
}

// lock is the state of a correct lock: its holders, the greatest token granted, and how many holds with a rank have begun.
type lock struct {
	holders []*begin
	last    lockport.Token
	begun   int
}

// begin is an operation: a hold begins.
type begin struct {
	hold *history.Span
	// asked is when the hold may begin, and ends when it may end: after the history, if nothing ends it.
	asked, ends history.Instant
	// void says that the hold may not count: it was handed on inside a process after the server had ended the claim, but before the process was told. If
	// it counts, it may end at once, so that only its token matters.
	void bool
	// rank is the place in the order in which holds begin, as far as tokens tell it; otherwise unranked.
	rank int
}

// end is an operation: the hold ends.
type end struct{ *begin }

const unranked = -1

// rank ranks holds, so that the search of a wrong order ends at once. Readers without a writer between them never exclude each other:
// if there is any order, there is one in which they begin as they were got. The token of a permit that was handed on is older than the hold.
func rank(all []*begin) {
	var ranked []*begin
	for _, s := range all {
		if s.rank = unranked; s.hold.Token != 0 && !s.void && (s.hold.Mode.Permits == 0 || !s.hold.HandedOn()) {
			ranked = append(ranked, s)
		}
	}
	// At equal tokens the reader is first, so that the writer is refused.
	slices.SortFunc(ranked, func(a, b *begin) int { return cmp.Or(cmp.Compare(a.hold.Token, b.hold.Token), a.writers()-b.writers()) })
	writers := 0
	for _, s := range ranked {
		s.rank = writers
		writers += s.writers()
	}
	slices.SortFunc(ranked, func(a, b *begin) int {
		return cmp.Or(a.rank-b.rank, a.writers()-b.writers(), cmp.Compare(a.hold.Got, b.hold.Got))
	})
	for i, s := range ranked {
		s.rank = i
	}
}

// writers is 0 for a reader and 1 for all others.
func (s *begin) writers() int {
	if s.hold.Mode.Shared {
		return 0
	}
	return 1
}

// admits says that the hold of s may begin. A hold that may have ended before s may begin has ended then: that only helps the others.
func (l lock) admits(s *begin) bool {
	h, free := s.hold, len(l.holders) == 0
	rises := h.Token == 0 || h.Token > l.last
	switch {
	case s.rank != unranked && s.rank != l.begun:
		return false
	case slices.ContainsFunc(l.holders, func(o *begin) bool { return o.ends <= s.asked }):
		return false
	case h.Mode.Permits > 0:
		return len(l.holders) < h.Mode.Permits && (rises || s.rank == unranked)
	case h.Mode.Shared:
		return free || l.holders[0].hold.Mode.Shared
	}
	return free && rises
}

// model is a correct lock.
var model = porcupine.Model{
	Init: func() any { return lock{} },
	Step: func(state, input, _ any) (bool, any) {
		l := state.(lock)
		if e, ok := input.(end); ok {
			i := slices.Index(l.holders, e.begin)
			if i >= 0 {
				l.holders = slices.Delete(slices.Clone(l.holders), i, i+1)
			}
			return i >= 0, l // a hold ends exactly once, so it is always clear what is still to come
		}
		s := input.(*begin)
		if !l.admits(s) {
			return s.void, l
		}
		l.last = max(l.last, s.hold.Token)
		if !s.void {
			l.holders = append(slices.Clip(l.holders), s)
		}
		if s.rank != unranked {
			l.begun++
		}
		return true, l
	},
	Equal: func(a, b any) bool {
		l, o := a.(lock), b.(lock)
		return slices.Equal(l.holders, o.holders) && l.last == o.last && l.begun == o.begun
	},
}

// explain repeats the search, and describes the end of the longest order and the holds that do not fit in.
func explain(h *history.History, name string, ops []porcupine.Operation, limit time.Duration) error {
	_, info := porcupine.CheckOperationsVerbose(model, ops, limit)
	all, longest := begins(ops), []*begin(nil)
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if order := begins(order); len(order) > len(longest) {
			longest = order
		}
	}
	text := fmt.Sprintf("%q is not linearizable: no correct lock with rising tokens could have done this. The longest order has %d of %d holds",
		name, len(longest), len(all))
	const shown = 6
	for _, s := range longest[max(0, len(longest)-shown):] {
		text += "\n  then " + h.Line(s.hold)
	}
	rest := slices.DeleteFunc(all, func(s *begin) bool { return slices.Contains(longest, s) })
	slices.SortFunc(rest, func(a, b *begin) int { return cmp.Compare(a.hold.Got, b.hold.Got) })
	for _, s := range rest[:min(2, len(rest))] {
		text += fmt.Sprintf("\n  does not fit in: %s\n  meanwhile: %s", h.Line(s.hold), h.Notes(h.Start, s.hold.Got))
	}
	return errors.New(text)
}

// begins are the holds of operations, in their order.
func begins(ops []porcupine.Operation) (all []*begin) {
	for _, op := range ops {
		if s, ok := op.Input.(*begin); ok {
			all = append(all, s)
		}
	}
	return all
}
