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
func (h *History) Injections() []Spell {
	return h.spells(Event{Kind: Noted, Err: Injected}, Event{Kind: Noted, Err: Healed})
}

// Aways are the periods in which nobody could acquire.
func (h *History) Aways() []Spell {
	return h.spells(Event{Kind: Noted, Err: Away}, Event{Kind: Noted, Err: Back})
}

// Stops are the periods in which a worker was stopped.
func (h *History) Stops(worker string) []Spell {
	return h.spells(Event{Kind: Stopped, Worker: worker}, Event{Kind: Resumed, Worker: worker})
}

// Wanted says that somebody asked or waited for a lock during a part of the period.
func (h *History) Wanted(in Spell) bool {
	return slices.ContainsFunc(h.Attempts, func(s *Span) bool { return s.Asked < in.To && h.Over(s) > in.From })
}

// Over is when an attempt got the lock, failed, or ended with its worker or the history.
func (h *History) Over(s *Span) Instant { return cmp.Or(s.Got, s.Failed, s.Killed, h.End) }

// Cuts are the periods in which the network of a worker was harmed.
func (h *History) Cuts(worker string) []Spell {
	return h.spells(Event{Kind: Cut, Worker: worker}, Event{Kind: Mended, Worker: worker})
}

// spells are the periods between such events. One without an end lasts to the end of the history.
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
		case e.Kind == Killed || e.Kind == Stopped || e.Kind == Resumed:
			notes = append(notes, fmt.Sprint(h.Since(e.At), " ", e.Worker, " ", e.Kind))
		}
	}
	return strings.Join(notes, "; ")
}

// Line describes a hold for people. Times are since the start of the history.
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
