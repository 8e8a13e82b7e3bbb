package history

import (
	"fmt"
	"slices"
	"time"
)

// Overlap is a time in which two holds of one name were believed in that exclude each other.
type Overlap struct {
	// First began before Second, or at the same instant. Of permits, it is one of those that were held when Second was one too many.
	First, Second *Span
	// From and To are when both believed.
	From, To Instant
}

// Overlaps are all pairs of holds of one name that were believed in at the same time and exclude each other, in the order in which they began to overlap: where
// one is not a reader, or the later one has a permit more than there are. Two holds of one worker count as those of two workers do.
func (h *History) Overlaps() (all []Overlap) {
	h.meet(func(s *Span, present []*Span) {
		for _, o := range present[min(max(0, s.Mode.Permits-1), len(present)):] {
			if !s.Mode.Shared || !o.Mode.Shared {
				all = append(all, Overlap{First: o, Second: s, From: s.Got, To: min(o.Until, s.Until)})
			}
		}
	})
	return all
}

// meet calls f with each hold that was believed in, and those of the same name that were when it began.
func (h *History) meet(f func(s *Span, present []*Span)) {
	open := make(map[string][]*Span) // by name, those whose belief may last
	for _, s := range h.Spans {
		if s.Until <= s.Got {
			continue
		}
		present := slices.DeleteFunc(open[s.Name], func(o *Span) bool { return o.Until <= s.Got })
		f(s, present)
		open[s.Name] = append(present, s)
	}
}

// beside is how many readers came beside another, and how many permits were given beside one that was held.
func (h *History) beside() (readers, permits int) {
	h.meet(func(s *Span, present []*Span) {
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

// Describe tells people who held what until when, who came in, and what was done to workers and servers meanwhile.
func (o *Overlap) Describe(h *History) string {
	const before = 3 * time.Second // a fault so long before the hold was asked for can have had a part in it
	return fmt.Sprintf("two held %q for %s, from %s to %s:\n  %s\n  %s\n  meanwhile: %s", o.First.Name, o.To.Sub(o.From), h.Since(o.From), h.Since(o.To),
		h.Line(o.First), h.Line(o.Second), h.Notes(o.First.Asked.Add(-before), o.To))
}

// Contended says that a worker asked for a plain lock while another one held it, and got it next.
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
