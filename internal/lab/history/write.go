package history

// Write is an attempt of a holder to update what the lock protects. One that failed for another reason than its token is none.
type Write struct {
	At      Instant
	By      *Span
	Refused bool
	// Over is the newest holder that there had been before the write, if that began after By; nil: none did.
	Over *Span
}

// Writes are all writes, in their order.
func (h *History) Writes() (all []Write) {
	for _, e := range h.Events {
		w := Write{At: e.At, Refused: e.Kind == Refused}
		if e.Kind != Wrote && (e.Kind != Refused || e.Class != ClassStale) {
			continue
		}
		for _, s := range h.Spans { // in the order in which they began
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
