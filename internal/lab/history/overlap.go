package history

import (
	"fmt"
	"slices"
	"time"
)

// Overlap is a time in which two holds of one name were believed in.
type Overlap struct {
	// First began before Second, or at the same instant.
	First, Second Span
	// From and To are when both believed.
	From, To Instant
}

// Overlaps are all pairs of holds of one name that were believed in at the same time, in the order in which they began to overlap. Two
// holds of one worker count as those of two workers do.
func (h *History) Overlaps() []Overlap {
	var all []Overlap
	open := make(map[string][]Span) // by name, those whose belief may last
	for _, s := range h.Spans {     // they come in the order in which they began
		if s.Until <= s.Got {
			continue
		}
		lasting := slices.DeleteFunc(open[s.Name], func(o Span) bool { return o.Until <= s.Got })
		for _, o := range lasting {
			all = append(all, Overlap{First: o, Second: s, From: s.Got, To: min(o.Until, s.Until)})
		}
		open[s.Name] = append(lasting, s)
	}
	return all
}

// Describe tells people what happened: who held what until when, who came in, and what was done to workers and servers meanwhile. Times
// are since the start of the history.
func (o *Overlap) Describe(h *History) string {
	text := fmt.Sprintf("two held %q for %s, from %s to %s:\n", o.First.Name, Milliseconds(o.To.Sub(o.From)), h.Since(o.From), h.Since(o.To))
	for _, s := range []*Span{&o.First, &o.Second} {
		text += "  " + h.Line(s) + "\n"
	}
	notes := h.Notes(o.First.Asked.Add(-notedBefore), o.To)
	if notes == "" {
		notes = "nothing"
	}
	return text + "  meanwhile: " + notes
}

// notedBefore is how long before a hold was asked for a fault can have had a part in what happened to it.
const notedBefore = 3 * time.Second

// Line tells people what became of a hold. Times are since the start of the history.
func (h *History) Line(s *Span) string {
	text := fmt.Sprintf("%s asked at %s, got it at %s and believed until %s, %s", s, h.Since(s.Asked), h.Since(s.Got), h.Since(s.Until), s.Ending)
	for _, e := range []struct {
		at   Instant
		what string
	}{{s.Deadline, "deadline"}, {s.Told, "told"}, {s.Releasing, "Release called"}, {s.Released, "returned"}} {
		if e.at != 0 {
			text += fmt.Sprintf("; %s at %s", e.what, h.Since(e.at))
		}
	}
	if s.ReleaseErr != "" {
		text += ": " + s.ReleaseErr
	}
	return text
}
