package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Spell is a time in which something lasted, both ends included. What is how a network was harmed, and else empty.
type Spell struct {
	From, To Instant
	What     string
}

// Injections are the faults that happened: each lasts until it was healed, until the next one, or to the end of the history.
func (h *History) Injections() []Spell {
	return h.spells(Event{Kind: Noted, Err: Injected}, Event{Kind: Noted, Err: Healed})
}

// Aways are the times in which nobody could acquire.
func (h *History) Aways() []Spell {
	return h.spells(Event{Kind: Noted, Err: Away}, Event{Kind: Noted, Err: Back})
}

// Stops are when a worker was stopped.
func (h *History) Stops(worker string) []Spell {
	return h.spells(Event{Kind: Stopped, Worker: worker}, Event{Kind: Resumed, Worker: worker})
}

// Wanted says that somebody asked for a lock, or waited for one, in a part of a time.
func (h *History) Wanted(in Spell) bool {
	return slices.ContainsFunc(h.Attempts, func(s *Span) bool { return s.Asked < in.To && h.Over(s) > in.From })
}

// Over is when an attempt got the lock, failed, or ended with its worker or the history.
func (h *History) Over(s *Span) Instant { return cmp.Or(s.Got, s.Failed, s.Killed, h.End) }

// Cuts are when the network of a worker was harmed.
func (h *History) Cuts(worker string) []Spell {
	return h.spells(Event{Kind: Cut, Worker: worker}, Event{Kind: Mended, Worker: worker})
}

// stopped says that a worker was stopped for a part of the time between two instants.
func (h *History) stopped(worker string, from, to Instant) bool {
	return slices.ContainsFunc(h.Stops(worker), func(s Spell) bool { return s.From <= to && s.To >= from })
}

// spells are those that begin and end with events like these. What does not end lasts to the end of the history.
func (h *History) spells(begin, end Event) []Spell {
	var all []Spell
	for _, e := range h.Events {
		like, what := Event{Kind: e.Kind, Worker: e.Worker, Err: e.Err}, ""
		if e.Kind == Cut {
			like.Err, what = "", e.Err
		}
		if like != begin && like != end {
			continue
		}
		if n := len(all); n > 0 {
			all[n-1].To = min(all[n-1].To, e.At)
		}
		if like == begin {
			all = append(all, Spell{e.At, h.End, what})
		}
	}
	return all
}

// Since is the time from the start of the history to t, for people.
func (h *History) Since(t Instant) time.Duration { return t.Sub(h.Start).Round(100 * time.Microsecond) }

// Notes are the notes of the scheduler, and what was done to workers, from one instant to another, both included: a line for people.
func (h *History) Notes(from, to Instant) string {
	var notes []string
	for _, e := range h.Events {
		switch {
		case e.At < from || e.At > to:
		case e.Kind == Noted:
			notes = append(notes, fmt.Sprint(h.Since(e.At), " ", e.Err))
		case e.Kind == Killed || e.Kind == Stopped || e.Kind == Resumed:
			notes = append(notes, fmt.Sprint(h.Since(e.At), " ", e.Worker, " ", e.Kind))
		}
	}
	return strings.Join(notes, "; ")
}

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

// Thousands writes n, which is not negative, with commas.
func Thousands[T ~int | ~int64](n T) string {
	s := fmt.Sprint(int64(n))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
