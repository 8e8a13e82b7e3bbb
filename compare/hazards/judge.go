package hazards

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
)

// The outcomes of late writes, for report.Run.LateWrite.
const (
	refused = "refused"
	landed  = "landed"
)

// judge says what a play has shown of the lock name: its script's findings, and its workers' beliefs and writes.
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
	if len(late) > 0 { // a write that landed tells more than a refused one
		telling := &late[max(0, slices.IndexFunc(late, func(w history.Write) bool { return !w.Refused }))]
		said, r.LateWrite = append(said, tellLate(telling)), landed
		if telling.Refused {
			r.LateWrite = refused
		}
	}
	if r.Class == report.Fenced && r.LateWrite != refused {
		r.Class = report.Unsafe
	}
	if len(said) == 0 {
		said = append(said, "No two clients believed they held the lock at once.")
	}
	r.Observed = strings.Join(said, " ")
	return r
}

// classOf classifies an overlap. It is fenced if the tokens tell the two apart, and the older holder tried to write when the newer one had the lock.
// judge checks that the write was refused.
func classOf(h *history.History, o *history.Overlap, writes []history.Write) report.Class {
	tried := slices.ContainsFunc(writes, func(w history.Write) bool { return w.By == o.First && w.At >= o.Second.Got })
	if !tried || o.First.Token == 0 || o.Second.Token <= o.First.Token || len(h.TokenFaults()) > 0 {
		return report.Unsafe
	}
	return report.Fenced
}

// unavailable says that in some fault a worker wanted a lock, nobody got one, and nobody held one to the fault's end.
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

func tellOverlap(o history.Overlap) string {
	older, newer := o.First.Token, o.Second.Token
	tokens := fmt.Sprintf("their tokens are %d and %d", older, newer)
	switch {
	case older == 0 || newer == 0:
		tokens = "there are no tokens to tell them apart"
	case older > newer:
		tokens += ": the server restarted its count, so the older holder has the greater one"
	case older == newer:
		tokens = fmt.Sprintf("both have the token %d", older)
	}
	return fmt.Sprintf("%s and %s both believed they held the lock for %s; %s.", clientName(o.First.Worker), clientName(o.Second.Worker), text(o.To.Sub(o.From)), tokens)
}

func tellLate(w *history.Write) string {
	what := "landed despite its token"
	switch {
	case w.Refused:
		what = "was refused: its token is the older one"
	case w.By.Token == 0:
		what = "landed: without a token, nothing can refuse it"
	}
	return fmt.Sprintf("What %s wrote after %s had the lock %s.", clientName(w.By.Worker), clientName(w.Over.Worker), what)
}
