package linear

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockport/lockport/internal/lab/history"
)

// Options are those of [Check]. The zero value is ready.
type Options struct {
	// Limit is how long the search may take. Default: a minute. What is not decided by then is Unknown.
	Limit time.Duration
	// Picture is the name of a file to which the history of the first lock that was not linearizable is drawn (HTML, by porcupine). Empty: none.
	Picture string
}

// Result is what [Check] has found. The zero value is not Ok: only a search that found an order is.
type Result struct {
	// Ok says that there is an order. Unknown says that the time limit came first. Neither says that there is none.
	Ok, Unknown bool
	// Grants is how many holds were judged.
	Grants int
	// Message says for people, if not Ok, which lock it was, up to where there is an order, and which holds do not fit in.
	Message string
}

// Rules are what is stated of a backend and a fault.
type Rules struct {
	// Margin is how much earlier a deadline is than the moment from which the server may grant the lock anew.
	Margin time.Duration
	// Sessions says that a claim ends with its worker, and Gone that the fault may end claims.
	Sessions, Gone bool
}

// Check judges the locks of h, each on its own. A hold that was not released in order may have ended from last-renewal-sent + TTL on, which is its
// deadline and r.Margin; from the death of its worker on if r.Sessions; and from the fault on if r.Gone. From the deadline on, or when its worker was
// told of a loss, its client may have undone it. Without tokens exclusion alone is judged. An error says that the picture could not be drawn. Safe for concurrent use.
func Check(h *history.History, r Rules, o Options) (Result, error) {
	if o.Limit == 0 {
		o.Limit = time.Minute
	}
	end := time.Now().Add(o.Limit)
	byName := make(map[string][]*history.Span)
	for i := range h.Spans {
		s := &h.Spans[i]
		byName[s.Name] = append(byName[s.Name], s)
	}
	res := Result{Ok: true, Grants: len(h.Spans)}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		ops := operations(h, byName[name], r)
		left := max(time.Until(end), 1) // 0 would be no limit
		switch porcupine.CheckOperationsTimeout(model, ops, left) {
		case porcupine.Ok:
			continue
		case porcupine.Illegal:
			message, err := explain(h, name, ops, o)
			return Result{Grants: res.Grants, Message: message}, err
		}
		res = Result{Unknown: true, Grants: res.Grants, Message: fmt.Sprintf("whether %q is linearizable was not decided in %v, with %d holds", name, o.Limit, len(byName[name]))}
	}
	return res, nil
}

// shown is how many of the last steps are told.
const shown = 6

// explain looks for an order again, and tells how far the longest goes. It draws the picture.
func explain(h *history.History, name string, ops []porcupine.Operation, o Options) (string, error) {
	_, info := porcupine.CheckOperationsVerbose(model, ops, o.Limit)
	var err error
	if o.Picture != "" {
		err = porcupine.VisualizePath(model, info, o.Picture)
	}
	var longest []porcupine.Operation
	for _, order := range info.PartialLinearizationsOperations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	placed := make(map[any]bool, len(longest))
	for _, op := range longest {
		placed[op.Input] = true
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%q is not linearizable: no lock that is held by one at a time, with tokens that rise, did this. The longest order is %d steps", name, len(longest))
	for _, op := range longest[max(0, len(longest)-shown):] {
		fmt.Fprintf(&text, "\n  then %s", op.Input.(*step))
	}
	rest := slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool { return op.Input.(*step).ends || placed[op.Input] })
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
	for _, op := range rest[:min(2, len(rest))] {
		s := op.Input.(*step).hold
		fmt.Fprintf(&text, "\n  does not fit in: %s", h.Line(s))
	}
	if len(longest) > 0 {
		fmt.Fprintf(&text, "\n  last before it: %s", h.Line(longest[len(longest)-1].Input.(*step).hold))
	}
	if len(rest) > 0 {
		if notes := h.Notes(h.Start, history.Instant(rest[0].Return)); notes != "" {
			fmt.Fprintf(&text, "\n  meanwhile: %s", notes)
		}
	}
	return text.String(), err
}
