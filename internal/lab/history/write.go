package history

// Write is a holder's attempt to update the protected resource. Attempts that failed for reasons other than the token do not count.
type Write struct {
	At      Instant
	By      *Span
	Refused bool
	// Over is the newest holder before the write that began after By; nil if there is none.
	Over *Span
}

// Writes returns all writes in order.
func (h *History) Writes() (all []Write) {
	for _, e := range h.Events {
		w := Write{At: e.At, Refused: e.Kind == Refused}
		if e.Kind != Wrote && (e.Kind != Refused || e.Class != ClassStale) {
			continue
		}
		for _, s := range h.Spans { // ordered by begin
			switch {
			case s.Worker == e.Worker && s.Op == e.Op:
				w.By = s
			case w.By != nil && s.Name == w.By.Name && s.Got > w.By.Got && s.Got < e.At:
				w.Over = s
			}
		}
		if w.By != nil {
			all = append(all, w)
		}
	}
	return all
}
