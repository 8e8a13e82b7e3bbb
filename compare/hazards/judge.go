package hazards

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
)

// What became of late writes, as report.Cell.LateWrite has it.
const (
	refused = "refused"
	landed  = "landed"
)

// lateWrite is what became of the late writes of runs: landed, if any did; empty if there were none.
func lateWrite(runs ...report.Run) (what string) {
	for _, r := range runs {
		for _, l := range r.Lanes {
			for _, w := range l.Writes {
				switch {
				case w.Late && !w.Refused:
					return landed
				case w.Late:
					what = refused
				}
			}
		}
	}
	return what
}

// judge says what a play has shown of the lock that it is about: what its script found, and what its workers believed and wrote.
func judge(h *history.History, name string) report.Run {
	r := timeline(h, name)
	r.Class = report.Safe
	overlaps, writes := h.Overlaps(), h.Writes()
	var said []string
	for _, e := range h.Events {
		if e.Kind == history.Found {
			r.Class, said = report.Worse(r.Class, report.Class(e.Class)), append(said, e.Err)
		}
	}
	for i := range overlaps {
		r.Class = report.Worse(r.Class, classOf(h, &overlaps[i], writes))
	}
	if len(overlaps) > 0 {
		said = append(said, tellOverlap(slices.MaxFunc(overlaps, func(a, b history.Overlap) int { return cmp.Compare(a.To-a.From, b.To-b.From) })))
	} else if unavailable(h) {
		r.Class = report.Worse(r.Class, report.Unavailable)
	}
	late := slices.DeleteFunc(writes, func(w history.Write) bool { return w.Over == nil })
	if len(late) > 0 { // one that landed tells more than one that was refused
		said = append(said, tellLate(&late[max(0, slices.IndexFunc(late, func(w history.Write) bool { return !w.Refused }))]))
	}
	if r.Class == report.Fenced && lateWrite(r) != refused {
		r.Class = report.Unsafe
	}
	if len(said) == 0 {
		said = append(said, "Nobody believed to hold a lock that somebody else held.")
	}
	r.Observed = strings.Join(said, " ")
	return r
}

// classOf is that of an overlap. It is fenced if the tokens tell the two apart, and the older holder tried to write when the newer one had the lock. That
// it was refused, judge looks at.
func classOf(h *history.History, o *history.Overlap, writes []history.Write) report.Class {
	tried := slices.ContainsFunc(writes, func(w history.Write) bool { return w.By == o.First && w.At >= o.Second.Got })
	if !tried || o.First.Token == 0 || o.Second.Token <= o.First.Token || len(h.TokenFaults()) > 0 {
		return report.Unsafe
	}
	return report.Fenced
}

// unavailable says that there was a fault in which somebody wanted a lock, and nobody had one all the time, or could get one.
func unavailable(h *history.History) bool {
	faulty := h.Aways()
	if len(faulty) == 0 {
		faulty = h.Injections()
	}
	return slices.ContainsFunc(faulty, func(f history.Spell) bool {
		return h.Wanted(f) && !slices.ContainsFunc(h.Spans, func(s *history.Span) bool {
			return s.Got <= f.To && (s.Got >= f.From || s.Until >= f.To)
		})
	})
}

// tellOverlap tells people that two believed.
func tellOverlap(o history.Overlap) string {
	older, newer := o.First.Token, o.Second.Token
	tokens := fmt.Sprintf("their tokens are %d and %d", older, newer)
	switch {
	case older == 0 || newer == 0:
		tokens = "there are no tokens to tell them apart"
	case older > newer:
		tokens += ": the server began to count anew, so that the older holder has the greater one"
	case older == newer:
		tokens = fmt.Sprintf("both have the token %d", older)
	}
	return fmt.Sprintf("%s and %s both believed to hold the lock for %s; %s.", lane(o.First.Worker), lane(o.Second.Worker), text(o.To.Sub(o.From)), tokens)
}

// tellLate tells people what became of a late write.
func tellLate(w *history.Write) string {
	what := "landed, in spite of its token"
	switch {
	case w.Refused:
		what = "was refused, since its token is the older one"
	case w.By.Token == 0:
		what = "landed: without a token there is nothing to refuse it by"
	}
	return fmt.Sprintf("What %s wrote after %s had the lock %s.", lane(w.By.Worker), lane(w.Over.Worker), what)
}
