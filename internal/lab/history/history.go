package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/lockport/lockport"
)

// History is what workers did with the locks of a phase, and what was done to them.
type History struct {
	// Events are all events, in the order of time.
	Events []Event
	// Attempts are all acquisitions in the order of their calls. Spans are those that succeeded, in the order in which they did.
	Attempts, Spans []*Span
	// Start and End are the times of the first and the last event.
	Start, End Instant
}

// Span is an acquisition and the hold it became, if any, as its worker saw them. Instants of what did not happen are 0.
type Span struct {
	Worker string
	Op     int64
	Name   string
	Mode   Mode
	Token  lockport.Token
	// Asked is when Acquire was called, and Limit the end of its context. It then either Got the hold or Failed, with an error of Class.
	Asked, Limit, Got, Failed Instant
	Class                     Class
	// ClaimAsked is when the claim was asked for at the earliest: before Asked if it served another hold of the process before, or at the same time.
	ClaimAsked Instant
	// Deadline is the last one that the worker knew.
	Deadline Instant
	// Believed is when the worker was last seen to believe in the hold past its deadline.
	Believed Instant
	// Told is when the worker learned that the hold was lost, Killed when the worker was killed.
	Told, Killed Instant
	// Releasing and Released are when Release was called and when it returned, with ReleaseErr.
	Releasing, Released Instant
	ReleaseErr          string
	// Until is the end of belief, and Ending says what ended it. It is not after Got if the worker never believed.
	Until  Instant
	Ending string
}

// NewHistory makes a history of the events of one phase, those of each worker in their order. Events that contradict each other are an error, because
// they cannot be judged: a hold that nobody asked for, or one that began twice.
func NewHistory(events []Event) (*History, error) {
	h := &History{Events: slices.Clone(events)}
	slices.SortStableFunc(h.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	if len(h.Events) > 0 {
		h.Start, h.End = h.Events[0].At, h.Events[len(h.Events)-1].At
	}
	if err := h.gather(); err != nil {
		return nil, fmt.Errorf("a history that contradicts itself: %w", err)
	}
	first := make(map[claim]Instant)
	for _, s := range h.Attempts {
		if s.Got == 0 {
			continue
		}
		s.believe(h.End)
		h.Spans = append(h.Spans, s)
		s.ClaimAsked = s.Asked
		if s.Mode.Permits > 0 {
			s.ClaimAsked = h.beganWaiting(s)
		}
		if s.Token != 0 { // attempts are in the order of Asked, so that the first one is the earliest
			s.ClaimAsked = cmp.Or(first[s.claim()], s.ClaimAsked)
			first[s.claim()] = s.ClaimAsked
		}
	}
	slices.SortStableFunc(h.Spans, func(a, b *Span) int { return cmp.Compare(a.Got, b.Got) })
	return h, nil
}

// beganWaiting is since when the process of s has waited for its name without a pause: the claim may have been granted to one of its calls that gave up, while
// others had later claims.
func (h *History) beganWaiting(s *Span) Instant {
	since := s.Asked
	for _, o := range slices.Backward(h.Attempts) {
		if o.Worker == s.Worker && o.Name == s.Name && o.Asked < since && h.Over(o) >= since {
			since = o.Asked
		}
	}
	return since
}

// gather joins the events by the attempt that they are about.
func (h *History) gather() error {
	type key struct {
		worker string
		op     int64
	}
	found := make(map[key]*Span)
	killed := make(map[string]Instant)
	var mistakes []error
	for _, e := range h.Events {
		s := found[key{e.Worker, e.Op}]
		switch e.Kind {
		case Killed:
			killed[e.Worker] = e.At
		case Asked:
			if s != nil {
				mistakes = append(mistakes, fmt.Errorf("%s: asked twice", e.About()))
				continue
			}
			s = &Span{Worker: e.Worker, Op: e.Op, Name: e.Name, Mode: e.Mode, Asked: e.At, Limit: e.Limit}
			found[key{e.Worker, e.Op}] = s
			h.Attempts = append(h.Attempts, s)
		case Got, Failed, Extended, Told, Releasing, Released:
			if s == nil || !s.add(e) {
				mistakes = append(mistakes, fmt.Errorf("%s: %s, which does not follow from what came before", e.About(), e.Kind))
			}
		case Believed:
			if s != nil && e.Valid {
				s.Believed = e.At
			}
		}
	}
	for _, s := range h.Attempts {
		s.Killed = killed[s.Worker]
	}
	return errors.Join(mistakes...)
}

// add takes up an event after Asked, and reports whether it may come now.
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
	case Released: // an ended hold has no deadline: the last one stands
		s.ReleaseErr = e.Err
		return true
	}
	s.Deadline = cmp.Or(e.Deadline, s.Deadline)
	return true
}

// endedByKill is how a hold ended whose worker was killed.
const endedByKill = "its worker was killed"

// believe finds the end of belief. What is open at the end of the history ends with it.
func (s *Span) believe(end Instant) {
	s.Until, s.Ending = end, "the end of the history"
	for _, e := range []struct {
		at   Instant
		what string
	}{{s.Killed, endedByKill}, {max(s.Deadline, s.Believed), "its deadline"}, {s.Told, "it was told of the loss"}, {s.Releasing, "it was released"}} {
		if e.at != 0 && e.at <= s.Until {
			s.Until, s.Ending = e.at, e.what
		}
	}
}

// holdsPerClaim is how many tokens a claim has: see package fence.
const holdsPerClaim = 1024

// claim is what the server has granted, as far as the tokens tell.
type claim struct {
	worker, name string
	token        lockport.Token
}

func (s *Span) claim() claim { return claim{s.Worker, s.Name, s.Token / holdsPerClaim} }

// HandedOn says that the hold had its claim from another hold of its process, or joined it as a reader, without the server.
func (s *Span) HandedOn() bool {
	return s.Token%holdsPerClaim != 0 || s.Mode.Shared && s.ClaimAsked < s.Asked
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
