package history

import (
	"fmt"
	"strings"
	"time"
)

// Spell is a time in which something lasted, both ends included.
type Spell struct{ From, To Instant }

// Injections are the faults that happened, in their order: each lasts until it was healed, or until the next one, or to the end of the history.
func (h *History) Injections() []Spell {
	return h.Spells(func(e *Event) (begins, ends bool) {
		if e.Kind != Noted {
			return false, false
		}
		return e.Err == Injected, e.Err == Injected || e.Err == Healed
	})
}

// Stops are when a worker was stopped, in their order. It surely did nothing between the ends of one.
func (h *History) Stops(worker string) []Spell {
	return h.Spells(func(e *Event) (begins, ends bool) {
		return e.Kind == Stopped && e.Worker == worker, e.Kind == Resumed && e.Worker == worker
	})
}

// Spells are those that begin and end with events that say so. What does not end lasts to the end of the history.
func (h *History) Spells(is func(*Event) (begins, ends bool)) []Spell {
	var all []Spell
	open := false
	for i := range h.Events {
		e := &h.Events[i]
		begins, ends := is(e)
		if ends && open {
			all[len(all)-1].To = e.At
			open = false
		}
		if begins && !open {
			all = append(all, Spell{e.At, h.End})
			open = true
		}
	}
	return all
}

// Since is the time from the start of the history to t, for people.
func (h *History) Since(t Instant) string { return Milliseconds(t.Sub(h.Start)) }

// Notes are the notes of the scheduler, and what was done to workers, from one instant to another, both included: a line for people.
func (h *History) Notes(from, to Instant) string {
	var notes []string
	for _, e := range h.Events {
		if e.At < from || e.At > to {
			continue
		}
		switch e.Kind {
		case Noted:
			notes = append(notes, h.Since(e.At)+" "+e.Err)
		case Killed, Stopped, Resumed:
			notes = append(notes, fmt.Sprintf("%s %s %s", h.Since(e.At), e.Worker, e.Kind))
		}
	}
	return strings.Join(notes, "; ")
}

// Milliseconds writes a duration as "1,234.5 ms".
func Milliseconds(d time.Duration) string {
	tenths := d.Round(100*time.Microsecond).Microseconds() / 100
	sign := ""
	if tenths < 0 {
		sign, tenths = "-", -tenths
	}
	return fmt.Sprintf("%s%s.%d ms", sign, Thousands(tenths/10), tenths%10)
}

// Thousands writes n, which is not negative, with commas.
func Thousands[T ~int | ~int64](n T) string {
	s := fmt.Sprint(int64(n))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
