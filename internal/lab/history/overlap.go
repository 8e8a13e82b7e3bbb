package history

import (
	"fmt"
	"slices"
	"time"
)

// Overlap is a time in which two conflicting holds of one name were believed.
type Overlap struct {
	// First began before Second, or at the same instant. With permits, it is one of those held when Second exceeded their number.
	First, Second *Span
	// From and To are when both believed.
	From, To Instant
}

// Overlaps are all pairs of conflicting holds of one name that were believed at once, ordered by when the overlap began. Holds conflict unless both
// are readers, or the later one stays within the number of permits. Two holds of one worker count like those of two workers.
func (h *History) Overlaps() (all []Overlap) {
	h.forEachBegin(func(s *Span, present []*Span) {
		for _, o := range present[min(max(0, s.Mode.Permits-1), len(present)):] {
			if !s.Mode.Shared || !o.Mode.Shared {
				all = append(all, Overlap{First: o, Second: s, From: s.Got, To: min(o.Until, s.Until)})
			}
		}
	})
	return all
}

// forEachBegin calls f with each believed hold, and with the holds of its name that were believed when it began.
func (h *History) forEachBegin(f func(s *Span, present []*Span)) {
	open := make(map[string][]*Span) // by name, holds whose belief may last
	for _, s := range h.Spans {
		if s.Until <= s.Got {
			continue
		}
		present := slices.DeleteFunc(open[s.Name], func(o *Span) bool { return o.Until <= s.Got })
		f(s, present)
		open[s.Name] = append(present, s)
	}
}

// Joins counts readers that joined another, and permits granted beside another.
func (h *History) Joins() (readers, permits int) {
	h.forEachBegin(func(s *Span, present []*Span) {
		switch {
		case len(present) == 0:
		case s.Mode.Shared:
			readers++
		case s.Mode.Permits > 0:
			permits++
		}
	})
	return readers, permits
}

// Describe tells people who held what until when, and what was done to workers and servers meanwhile.
func (o *Overlap) Describe(h *History) string {
	const before = 3 * time.Second // an earlier fault may have contributed
	return fmt.Sprintf("two held %q for %s, from %s to %s:\n  %s\n  %s\n  meanwhile: %s", o.First.Name, o.To.Sub(o.From), h.Since(o.From), h.Since(o.To),
		h.Line(o.First), h.Line(o.Second), h.Notes(o.First.Asked.Add(-before), o.To))
}

// Contended says that a worker asked for a plain lock while another held it, and got it next.
func (h *History) Contended() bool {
	last := make(map[string]*Span)
	for _, s := range h.Spans {
		if s.Mode != (Mode{}) {
			continue
		}
		if o := last[s.Name]; o != nil && o.Worker != s.Worker && s.Asked < o.Until {
			return true
		}
		last[s.Name] = s
	}
	return false
}
