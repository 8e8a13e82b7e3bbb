package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Spell is a period, both ends included. What is how a network was harmed, otherwise empty.
type Spell struct {
	From, To Instant
	What     string
}

// Injections are the faults. Each lasts until it is healed, the next one begins, or the history ends.
func (h *History) Injections() []Spell { return h.spells("", Injected, Healed) }

// Aways are the periods in which nobody could acquire.
func (h *History) Aways() []Spell { return h.spells("", Away, Back) }

// Stops are the periods in which a worker was stopped.
func (h *History) Stops(worker string) []Spell { return h.spells(worker, Stopped, Resumed) }

// Wanted says that somebody asked or waited for a lock during a part of the period.
func (h *History) Wanted(in Spell) bool {
	return slices.ContainsFunc(h.Attempts, func(s *Span) bool { return s.Asked < in.To && h.Over(s) > in.From })
}

// Over is when an attempt got the lock, failed, or ended with its worker or the history.
func (h *History) Over(s *Span) Instant { return cmp.Or(s.Got, s.Failed, s.Killed, h.End) }

// Cuts are the periods in which the network of a worker was harmed.
func (h *History) Cuts(worker string) []Spell { return h.spells(worker, Cut, Mended) }

// spells are the periods between such events. One without an end lasts to the end of the history.
func (h *History) spells(worker string, begin, end Kind) (all []Spell) {
	for _, e := range h.Events {
		if e.Worker != worker || e.Kind != begin && e.Kind != end {
			continue
		}
		if n := len(all); n > 0 {
			all[n-1].To = min(all[n-1].To, e.At)
		}
		if e.Kind == begin {
			all = append(all, Spell{e.At, h.End, e.Err})
		}
	}
	return all
}

// Since returns the time from the start of the history to t, for people.
func (h *History) Since(t Instant) time.Duration { return t.Sub(h.Start).Round(100 * time.Microsecond) }

// Notes is a line for people: the scheduler's notes and actions on workers between two instants, both included.
func (h *History) Notes(from, to Instant) string {
	var notes []string
	for _, e := range h.Events {
		switch {
		case e.At < from || e.At > to:
		case e.Kind == Noted:
			notes = append(notes, fmt.Sprint(h.Since(e.At), " ", e.Err))
		case slices.Contains([]Kind{Killed, Stopped, Resumed, Injected, Healed, Away, Back}, e.Kind):
			notes = append(notes, fmt.Sprint(h.Since(e.At), " ", strings.TrimSpace(e.Worker+" "+string(e.Kind))))
		}
	}
	return strings.Join(notes, "; ")
}

// Line describes a hold for people. Times are since the start of the history.
func (h *History) Line(s *Span) string {
	text := fmt.Sprintf("%s asked at %s, got it at %s and believed until %s: %s", s, h.Since(s.Asked), h.Since(s.Got), h.Since(s.Until), s.Ending)
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
