// Package history records what worker processes did with locks and what was done to them, and judges it by belief, tokens and time.
package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// History is what workers did with the locks of a phase, and what was done to them.
type History struct {
	// Events are all events, ordered by time.
	Events []Event
	// Attempts are all acquisitions, ordered by call. Spans are the successful ones, ordered by when they got the lock.
	Attempts, Spans []*Span
	// Start and End are the times of the first and the last event.
	Start, End Instant
}

// Span is an acquisition and its hold, if any, as the worker saw them. An Instant of 0 means that it did not happen.
type Span struct {
	Worker string
	Op     int64
	Name   string
	Mode   Mode
	Token  lockport.Token
	// Asked is when Acquire was called, and Limit the end of its context. The call then either Got the hold or Failed with an error of Class.
	Asked, Limit, Got, Failed Instant
	Class                     Class
	// ClaimAsked is the earliest time at which the claim was requested. It is before Asked if the claim already served, or was requested for, another
	// acquisition of the process.
	ClaimAsked Instant
	// Deadline is the last one known to the worker.
	Deadline Instant
	// Believed is the last time at which the worker was seen to believe in the hold past its deadline.
	Believed Instant
	// Told is when the worker learned that the hold was lost, Killed when the worker was killed.
	Told, Killed Instant
	// Releasing and Released are when Release was called and when it returned, with ReleaseErr.
	Releasing, Released Instant
	ReleaseErr          string
	// Until is the end of belief, and Ending says for people how it ended. Until is not after Got if the worker never believed.
	Until  Instant
	Ending string
}

// NewHistory makes a history of the events of one phase. Events of one worker must be in order. Contradictory events are an error, because they
// cannot be judged: a hold that nobody asked for, or that began twice.
func NewHistory(events []Event) (*History, error) {
	h := &History{Events: slices.Clone(events)}
	slices.SortStableFunc(h.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	if len(h.Events) > 0 {
		h.Start, h.End = h.Events[0].At, h.Events[len(h.Events)-1].At
	}
	if err := h.gather(); err != nil {
		return nil, fmt.Errorf("the history contradicts itself: %w", err)
	}
	first := make(map[claim]Instant)
	for _, s := range h.Attempts {
		if s.Got == 0 {
			continue
		}
		s.endBelief(h.End)
		h.Spans = append(h.Spans, s)
		s.ClaimAsked = s.Asked
		if s.Mode.Permits > 0 {
			s.ClaimAsked = h.beganWaiting(s)
		}
		if s.Token != 0 { // attempts are ordered by Asked, so the first one is the earliest
			s.ClaimAsked = cmp.Or(first[s.claim()], s.ClaimAsked)
			first[s.claim()] = s.ClaimAsked
		}
	}
	slices.SortStableFunc(h.Spans, func(a, b *Span) int { return cmp.Compare(a.Got, b.Got) })
	return h, nil
}

// beganWaiting is since when the process of s has waited for its name without a gap. The claim may have been granted to a call that gave up, while
// others made later claims.
func (h *History) beganWaiting(s *Span) Instant {
	since := s.Asked
	for _, o := range slices.Backward(h.Attempts) {
		if o.Worker == s.Worker && o.Name == s.Name && o.Asked < since && h.Over(o) >= since {
			since = o.Asked
		}
	}
	return since
}

// gather groups the events by attempt.
func (h *History) gather() error {
	type key struct {
		worker string
		op     int64
	}
	found := make(map[key]*Span)
	killed := make(map[string]Instant)
	var contradictions []error
	for _, e := range h.Events {
		s := found[key{e.Worker, e.Op}]
		switch e.Kind {
		case Killed:
			killed[e.Worker] = e.At
		case Asked:
			if s != nil {
				contradictions = append(contradictions, fmt.Errorf("%s: asked twice", e.About()))
				continue
			}
			s = &Span{Worker: e.Worker, Op: e.Op, Name: e.Name, Mode: e.Mode, Asked: e.At, Limit: e.Limit}
			found[key{e.Worker, e.Op}] = s
			h.Attempts = append(h.Attempts, s)
		case Got, Failed, Extended, Told, Releasing, Released:
			if s == nil || !s.add(e) {
				contradictions = append(contradictions, fmt.Errorf("%s: unexpected %s", e.About(), e.Kind))
			}
		case Checked:
			if s != nil && e.Late() {
				s.Believed = e.At
			}
		}
	}
	for _, s := range h.Attempts {
		s.Killed = killed[s.Worker]
	}
	return errors.Join(contradictions...)
}

// add applies an event after Asked, and reports whether it may come now.
func (s *Span) add(e Event) bool {
	at := map[Kind]*Instant{Got: &s.Got, Failed: &s.Failed, Extended: new(Instant), Told: &s.Told, Releasing: &s.Releasing, Released: &s.Released}[e.Kind]
	returns := e.Kind == Got || e.Kind == Failed
	if *at != 0 || s.Failed != 0 || returns == (s.Got != 0) || e.Kind == Released && s.Releasing == 0 || e.Name != "" && e.Name != s.Name {
		return false
	}
	*at = e.At
	switch e.Kind {
	case Got:
		s.Token = e.Token
	case Failed:
		s.Class = e.Class
	case Released: // an ended hold has no deadline, so the last one stays
		s.ReleaseErr = e.Err
		return true
	}
	s.Deadline = cmp.Or(e.Deadline, s.Deadline)
	return true
}

// endBelief finds the end of belief: at the latest, the end of the history.
func (s *Span) endBelief(end Instant) {
	s.Until, s.Ending = end, "still held at the end"
	for _, e := range []struct {
		at   Instant
		what string
	}{{s.Killed, "killed"}, {max(s.Deadline, s.Believed), "the deadline passed"}, {s.Told, "told that it was lost"}, {s.Releasing, "released"}} {
		if e.at != 0 && e.at <= s.Until {
			s.Until, s.Ending = e.at, e.what
		}
	}
}

// claim identifies a grant of the server, as far as tokens tell.
type claim struct {
	worker, name string
	token        lockport.Token
}

func (s *Span) claim() claim { return claim{s.Worker, s.Name, s.Token / driver.TokensPerGrant} }

// HandedOn says that the hold took over the claim of another hold of its process, or joined it as a reader, without the server.
func (s *Span) HandedOn() bool {
	return s.Token%driver.TokensPerGrant != 0 || s.Mode.Shared && s.ClaimAsked < s.Asked
}

// Clean says that the hold ended by a Release that returned no error.
func (s *Span) Clean() bool { return s.Released != 0 && s.ReleaseErr == "" }

// String names the hold for people.
func (s *Span) String() string {
	if s.Token == 0 {
		return fmt.Sprintf("%s/%d", s.Worker, s.Op)
	}
	return fmt.Sprintf("%s/%d (token %d)", s.Worker, s.Op, s.Token)
}
