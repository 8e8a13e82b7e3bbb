package history

import "slices"

// Contended says that a worker asked for a lock while another one held it, and got it next.
func (h *History) Contended() bool {
	last := make(map[string]*Span)
	for i := range h.Spans {
		s := &h.Spans[i]
		if o := last[s.Name]; o != nil && o.Worker != s.Worker && s.Asked < o.Until {
			return true
		}
		last[s.Name] = s
	}
	return false
}

// RefusedStale says that the fence refused somebody for a newer token.
func (h *History) RefusedStale() bool {
	return slices.ContainsFunc(h.Events, func(e Event) bool { return e.Kind == Refused && e.Class == ClassStale })
}
