package hazards

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
)

// What became of a late write, as report.Cell.LateWrite has it.
const (
	refused = "refused"
	landed  = "landed"
)

// verdict is what a play has shown.
type verdict struct {
	class    report.Class
	observed string
	late     string // refused, landed or nothing
	overlaps []history.Overlap
	writes   []write
}

// write is an attempt to write to what the lock protects. A write that failed for another reason than its token is none.
type write struct {
	history.Event
	by   *history.Span
	over *history.Span // the newest holder there had been before it, if that was a newer one
}

func (w *write) refused() bool { return w.Kind == history.Refused }

// newHistory is the history of a play. A hold whose worker was seen to believe in it past its deadline lasts until it was last seen to.
func newHistory(events []history.Event) (*history.History, error) {
	h, err := history.NewHistory(events)
	if err != nil {
		return nil, err
	}
	for _, e := range h.Events {
		if s := holdOf(h, e); s != nil && e.Kind == history.Believed && e.Valid {
			s.Until = max(s.Until, e.At)
		}
	}
	return h, nil
}

// holdOf is the hold that an event is about; nil for none.
func holdOf(h *history.History, e history.Event) *history.Span {
	i := slices.IndexFunc(h.Spans, func(s *history.Span) bool { return s.Worker == e.Worker && s.Op == e.Op })
	if i < 0 {
		return nil
	}
	return h.Spans[i]
}

// judge says what a play has shown: what its script found, and what its workers believed and wrote.
func judge(h *history.History, p *trial) verdict {
	v := verdict{class: report.Worse(report.Safe, p.class), overlaps: h.Overlaps(), writes: writes(h)}
	said := slices.Clone(p.observed)
	for i := range v.overlaps {
		v.class = report.Worse(v.class, v.classOf(h, &v.overlaps[i]))
	}
	if len(v.overlaps) > 0 {
		said = append(said, tellOverlap(slices.MaxFunc(v.overlaps, func(a, b history.Overlap) int { return int(a.To.Sub(a.From) - b.To.Sub(b.From)) })))
	} else if unavailable(h) {
		v.class = report.Worse(v.class, report.Unavailable)
	}
	late := slices.DeleteFunc(slices.Clone(v.writes), func(w write) bool { return w.over == nil })
	if len(late) > 0 { // one that landed tells more than one that was refused
		telling := max(0, slices.IndexFunc(late, func(w write) bool { return !w.refused() }))
		v.late = landed
		if late[telling].refused() {
			v.late = refused
		}
		said = append(said, tellLate(&late[telling]))
	}
	if v.class == report.Fenced && v.late != refused {
		v.class = report.Unsafe
	}
	if len(said) == 0 {
		said = append(said, "Nobody believed to hold a lock that somebody else held.")
	}
	v.observed = strings.Join(said, " ")
	return v
}

// classOf is that of an overlap. It is fenced if the tokens tell the two apart, and the older holder tried to write when the newer one had the lock. That
// it was refused, judge looks at.
func (v *verdict) classOf(h *history.History, o *history.Overlap) report.Class {
	tried := slices.ContainsFunc(v.writes, func(w write) bool { return w.by == o.First && w.At >= o.Second.Got })
	if !tried || o.First.Token == 0 || o.Second.Token <= o.First.Token || len(h.TokenFaults()) > 0 {
		return report.Unsafe
	}
	return report.Fenced
}

// writes are all writes, in their order.
func writes(h *history.History) (all []write) {
	for _, e := range h.Events {
		w := write{Event: e, by: holdOf(h, e)}
		if w.by == nil || e.Kind != history.Wrote && (e.Kind != history.Refused || e.Class != history.ClassStale) {
			continue
		}
		for _, s := range h.Spans {
			if s.Name == w.by.Name && s.Got > w.by.Got && s.Got < e.At {
				w.over = s
			}
		}
		all = append(all, w)
	}
	return all
}

// unavailable says that there was a fault in which somebody wanted a lock, and nobody had one all the time, or could get one.
func unavailable(h *history.History) bool {
	faulty := h.Aways()
	if len(faulty) == 0 {
		faulty = h.Injections()
	}
	return slices.ContainsFunc(faulty, func(f history.Spell) bool {
		wanted, had := false, false
		for _, s := range h.Attempts {
			over, _ := ending(h, s)
			wanted = wanted || s.Asked < f.To && over > f.From
			had = had || s.Got != 0 && s.Got <= f.To && (s.Got >= f.From || s.Until >= f.To)
		}
		return wanted && !had
	})
}

// ending is when an attempt got the lock or was over, and for people how one ended that got nothing.
func ending(h *history.History, s *history.Span) (over history.Instant, how string) {
	switch {
	case s.Got != 0:
		return s.Got, ""
	case s.Failed != 0 && s.Class == history.ClassTimedOut:
		return s.Failed, "given up"
	case s.Failed != 0 && s.Class == history.ClassHeld:
		return s.Failed, said(s.Class)
	case s.Failed != 0:
		return s.Failed, string(s.Class)
	case s.Killed != 0:
		return s.Killed, "killed"
	}
	return h.End, "the end"
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
func tellLate(w *write) string {
	what := "landed, in spite of its token"
	switch {
	case w.refused():
		what = "was refused, since its token is the older one"
	case w.Token == 0:
		what = "landed: without a token there is nothing to refuse it by"
	}
	return fmt.Sprintf("What %s wrote after %s had the lock %s.", lane(w.Worker), lane(w.over.Worker), what)
}
