package hazards

import (
	"fmt"
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

// write is an attempt to write to what the lock protects.
type write struct {
	history.Event
	by      *history.Span
	refused bool
	over    *history.Span // the newest holder there had been before it, if that was a newer one
}

// newHistory is the history of a play. A hold whose worker was seen to believe in it past its deadline lasts until it was last seen to.
func newHistory(events []history.Event) (*history.History, error) {
	h, err := history.NewHistory(events)
	if err != nil {
		return nil, err
	}
	for _, e := range h.Events {
		if e.Kind != history.Believed || !e.Valid {
			continue
		}
		for _, s := range h.Spans {
			if s.Worker == e.Worker && s.Op == e.Op {
				s.Until = max(s.Until, e.At)
			}
		}
	}
	return h, nil
}

// judge says what a play has shown, by what its workers believed and wrote, and by what its script found.
func judge(h *history.History, p *trial) verdict {
	v := verdict{class: report.Worse(report.Safe, p.class), overlaps: h.Overlaps(), writes: writes(h)}
	said := []string{p.text()}
	if p.text() == "" {
		said = nil
	}
	var longest *history.Overlap
	for i := range v.overlaps {
		o := &v.overlaps[i]
		v.class = report.Worse(v.class, v.classOf(h, o))
		if longest == nil || o.To.Sub(o.From) > longest.To.Sub(longest.From) {
			longest = o
		}
	}
	if longest != nil {
		said = append(said, tellOverlap(longest))
	} else if unavailable(h) {
		v.class = report.Worse(v.class, report.Unavailable)
	}
	if w := v.lateWrite(); w != nil {
		said = append(said, tellLate(w))
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

// classOf is that of an overlap: fenced if the tokens tell the two apart, and what the older one wrote when the newer one had the lock was refused, which
// must have been tried.
func (v *verdict) classOf(h *history.History, o *history.Overlap) report.Class {
	tried := false
	for _, w := range v.writes {
		if !same(w.by, o.First) || w.At < o.Second.Got {
			continue
		}
		if !w.refused {
			return report.Unsafe
		}
		tried = true
	}
	if !tried || o.First.Token == 0 || o.Second.Token <= o.First.Token || len(h.TokenFaults()) > 0 {
		return report.Unsafe
	}
	return report.Fenced
}

// same says that two are one hold.
func same(a, b *history.Span) bool { return a.Worker == b.Worker && a.Op == b.Op }

// writes are all writes, in their order, by whom, and whether a newer holder had been there before.
func writes(h *history.History) []write {
	var all []write
	for _, e := range h.Events {
		stale := e.Kind == history.Refused && e.Class == history.ClassStale
		if !stale && e.Kind != history.Wrote {
			continue // what failed for another reason is no write
		}
		w := write{Event: e, refused: stale}
		for _, s := range h.Spans {
			if s.Worker == e.Worker && s.Op == e.Op {
				w.by = s
			}
		}
		if w.by == nil {
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

// lateWrite sets what became of late writes, and returns the first one that tells: one that landed tells more than one that was refused.
func (v *verdict) lateWrite() (first *write) {
	for i := range v.writes {
		w := &v.writes[i]
		if w.over != nil && (first == nil || first.refused && !w.refused) {
			first = w
		}
	}
	if first != nil {
		v.late = landed
		if first.refused {
			v.late = refused
		}
	}
	return first
}

// unavailable says that there was a fault in which somebody wanted a lock, and nobody had one all the time, or could get one.
func unavailable(h *history.History) bool {
	faulty := h.Aways()
	if len(faulty) == 0 {
		faulty = h.Injections()
	}
	for _, f := range faulty {
		wanted, had := false, false
		for _, a := range attempts(h) {
			wanted = wanted || a.Asked < f.To && a.over > f.From
			had = had || a.Got != 0 && a.Got >= f.From && a.Got <= f.To
		}
		for _, s := range h.Spans {
			had = had || s.Got <= f.From && s.Until >= f.To
		}
		if wanted && !had {
			return true
		}
	}
	return false
}

// attempt is an acquisition, whatever came of it.
type attempt struct {
	*history.Span
	over   history.Instant // when it returned, or its worker was killed, or the history ended
	ending string          // of one that failed, for people
}

// attempts are all acquisitions, in the order in which they were asked for.
func attempts(h *history.History) (all []*attempt) {
	for _, t := range h.Attempts {
		a := &attempt{Span: t, over: h.End, ending: "the end"}
		switch {
		case t.Got != 0:
			a.over = t.Got
		case t.Failed != 0:
			a.over, a.ending = t.Failed, endingOf(t.Class)
		case t.Killed != 0:
			a.over, a.ending = t.Killed, "killed"
		}
		all = append(all, a)
	}
	return all
}

// endingOf says for people how an attempt failed.
func endingOf(c history.Class) string {
	switch c {
	case history.ClassHeld:
		return "somebody else has it"
	case history.ClassTimedOut:
		return "given up"
	}
	return string(c)
}

// tellOverlap tells people that two believed.
func tellOverlap(o *history.Overlap) string {
	tokens := "there are no tokens to tell them apart"
	switch {
	case o.First.Token == 0 || o.Second.Token == 0:
	case o.First.Token > o.Second.Token:
		tokens = fmt.Sprintf("their tokens are %d and %d: the server began to count anew, so that the older holder has the greater one", o.First.Token, o.Second.Token)
	case o.First.Token < o.Second.Token:
		tokens = fmt.Sprintf("their tokens are %d and %d", o.First.Token, o.Second.Token)
	default:
		tokens = fmt.Sprintf("both have the token %d", o.First.Token)
	}
	return fmt.Sprintf("%s and %s both believed to hold the lock for %s; %s.", lane(o.First.Worker), lane(o.Second.Worker), text(o.To.Sub(o.From)), tokens)
}

// tellLate tells people what became of a late write.
func tellLate(w *write) string {
	older, newer := lane(w.Worker), lane(w.over.Worker)
	switch {
	case w.refused:
		return fmt.Sprintf("What %s wrote after %s had the lock was refused, since its token is the older one.", older, newer)
	case w.Token == 0:
		return fmt.Sprintf("What %s wrote after %s had the lock landed: without a token there is nothing to refuse it by.", older, newer)
	}
	return fmt.Sprintf("What %s wrote after %s had the lock landed, in spite of its token.", older, newer)
}
