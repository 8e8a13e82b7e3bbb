// Package linear judges a history of holds by linearizability (M. Herlihy, J. Wing, Linearizability, 1990), with porcupine: is there one order in
// which a lock that is never given to two, and whose tokens rise, could have done what was seen? It sees more than overlapping belief: a lock
// that the server granted anew too early is a mistake also where its first holder had been killed, or had just stopped believing.
package linear

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/history"
)

// Result is what [Check] has found. The zero value is not Ok: only a search that found an order is.
type Result struct {
	// Ok says that there is an order. Unknown says that the time limit came first. Neither says that there is none.
	Ok, Unknown bool
	// Message says for people, if not Ok, which lock it was, up to where there is an order, and which holds do not fit in.
	Message string
}

// Check judges the locks of h, each on its own, for limit at most. Without tokens it judges exclusion alone. Safe for concurrent use.
func Check(h *history.History, r Rules, limit time.Duration) Result {
	deadline := time.Now().Add(limit)
	byName := make(map[string][]*history.Span)
	for _, s := range h.Spans {
		byName[s.Name] = append(byName[s.Name], s)
	}
	res := Result{Ok: true}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		ops := r.operations(h, byName[name])
		switch porcupine.CheckOperationsTimeout(model, ops, max(time.Until(deadline), 1)) { // 0 would be no limit
		case porcupine.Illegal:
			return Result{Message: explain(h, name, ops, limit)}
		case porcupine.Unknown:
			res = Result{Unknown: true, Message: fmt.Sprintf("whether %q is linearizable was not decided in %v, with %d holds", name, limit, len(byName[name]))}
		}
	}
	return res
}

// lock is the state of the lock that is compared with: who holds it, and the greatest token that it has given.
type lock struct {
	holder *history.Span
	last   lockport.Token
}

// step is an operation: a hold begins, or it ends.
type step struct {
	hold *history.Span
	ends bool
	// void says that the hold may never have been one: it was handed on inside a process after the server had ended the claim, and
	// before the process was told.
	void bool
}

// model is a lock that works.
var model = porcupine.Model{
	Init: func() any { return lock{} },
	Step: func(state, input, _ any) (bool, any) {
		l, s := state.(lock), input.(*step)
		switch {
		case s.ends && l.holder == s.hold:
			return true, lock{nil, l.last}
		case !s.ends && l.holder == nil && (s.hold.Token == 0 || s.hold.Token > l.last):
			return true, lock{s.hold, max(l.last, s.hold.Token)}
		}
		return s.void, l // a hold ends exactly once, so that it is never unclear what is still to come of one
	},
}

// explain looks for an order again, and tells what comes last in the longest and which holds do not fit in.
func explain(h *history.History, name string, ops []porcupine.Operation, limit time.Duration) string {
	_, info := porcupine.CheckOperationsVerbose(model, ops, limit)
	longest := slices.MaxFunc(info.PartialLinearizationsOperations()[0], func(a, b []porcupine.Operation) int { return len(a) - len(b) })
	text := fmt.Sprintf("%q is not linearizable: no lock that is held by one at a time, with tokens that rise, did this. The longest order is %d steps", name, len(longest))
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
