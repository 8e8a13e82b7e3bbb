package history

import (
	"fmt"
	"slices"
	"time"
)

// Overlap is a time in which two holds of one name were believed in.
type Overlap struct {
	// First began before Second, or at the same instant.
	First, Second *Span
	// From and To are when both believed.
	From, To Instant
}

// Overlaps are all pairs of holds of one name that were believed in at the same time, in the order in which they began to overlap. Two
// holds of one worker count as those of two workers do.
func (h *History) Overlaps() []Overlap {
	var all []Overlap
	open := make(map[string][]*Span) // by name, those whose belief may last
	for _, s := range h.Spans {
		if s.Until <= s.Got {
			continue
		}
		lasting := slices.DeleteFunc(open[s.Name], func(o *Span) bool { return o.Until <= s.Got })
		for _, o := range lasting {
			all = append(all, Overlap{First: o, Second: s, From: s.Got, To: min(o.Until, s.Until)})
		}
		open[s.Name] = append(lasting, s)
	}
	return all
}

// Describe tells people who held what until when, who came in, and what was done to workers and servers meanwhile.
func (o *Overlap) Describe(h *History) string {
	const before = 3 * time.Second // a fault so long before the hold was asked for can have had a part in it
	return fmt.Sprintf("two held %q for %s, from %s to %s:\n  %s\n  %s\n  meanwhile: %s", o.First.Name, o.To.Sub(o.From), h.Since(o.From), h.Since(o.To),
		h.Line(o.First), h.Line(o.Second), h.Notes(o.First.Asked.Add(-before), o.To))
}

// Contended says that a worker asked for a lock while another one held it, and got it next.
func (h *History) Contended() bool {
	last := make(map[string]*Span)
	for _, s := range h.Spans {
		if o := last[s.Name]; o != nil && o.Worker != s.Worker && s.Asked < o.Until {
			return true
		}
		last[s.Name] = s
	}
	return false
}
