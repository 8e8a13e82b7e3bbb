package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/lockport/lockport"
)

// History is what workers did on the locks of a phase, and what was done to them. It is not changed once it is made, so it is safe
// for concurrent use.
type History struct {
	// Events are all events, in the order of time.
	Events []Event
	// Spans are the holds, by the time at which they began.
	Spans    []Span
	Attempts []*Try // all, those that failed among them
	// Start and End are the times of the first and the last event.
	Start, End Instant
}

// Span is a hold as its worker believed in it.
type Span struct {
	Attempt
	Got Instant
	// ClaimAsked is when the first known hold of its claim was asked for: before Asked, if it was handed on inside its process.
	ClaimAsked Instant
	// Deadline is the last that the worker knew, 0 if it had none.
	Deadline Instant
	// Told is when the worker learned that the hold was lost, 0 if it did not, and Reason what it was told.
	Told   Instant
	Reason string
	// Releasing and Released are when it called Release and when that returned, with ReleaseErr; 0 if it did not.
	Releasing, Released Instant
	ReleaseErr          string
	// Until is the end of belief, and Ending says for people what ended it. It is not after Got if the worker never believed.
	Until  Instant
	Ending string
}

// Attempt is an acquisition, whatever came of it.
type Attempt struct {
	Worker string
	Op     int64
	Name   string
	// Token is 0 as long as it has none.
	Token lockport.Token
	Asked Instant
	// Limit is the end of its context, 0 for none.
	Limit Instant
	// Killed is when its worker was killed, 0 if it was not.
	Killed Instant
}

// NewHistory makes a history of the events of one phase, those of each worker in their order. It fails if they contradict each other,
// for then there is nothing to be judged: a hold that nobody asked for, or one that began twice.
func NewHistory(events []Event) (*History, error) {
	h := &History{Events: slices.Clone(events)}
	slices.SortStableFunc(h.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	if len(h.Events) > 0 {
		h.Start, h.End = h.Events[0].At, h.Events[len(h.Events)-1].At
	}
	if err := h.gather(); err != nil {
		return nil, err
	}
	for _, t := range h.Attempts {
		if t.Got != 0 {
			t.believe(h.End)
			h.Spans = append(h.Spans, t.Span)
		}
	}
	slices.SortStableFunc(h.Spans, func(a, b Span) int { return cmp.Compare(a.Got, b.Got) })
	h.claims()
	return h, nil
}

// holdsPerClaim is how many tokens a claim has: that of a hold is the server's times so much, and the number of the hold in its claim (see package fence).
const holdsPerClaim = 1024

// claim is what the server has granted, as far as the tokens tell.
type claim struct {
	worker, name string
	token        lockport.Token // the server's
}

func (s *Span) claim() claim { return claim{s.Worker, s.Name, s.Token / holdsPerClaim} }

// claims finds out when the claims of holds were asked for.
func (h *History) claims() {
	first := make(map[claim]Instant)
	for i := range h.Spans {
		s := &h.Spans[i]
		s.ClaimAsked = s.Asked
		if s.Token == 0 {
			continue
		}
		if asked, known := first[s.claim()]; known {
			s.ClaimAsked = min(asked, s.Asked)
		}
		first[s.claim()] = s.ClaimAsked
	}
}

// HandedOn says that the hold had its claim from another hold of its process, without the server.
func (s *Span) HandedOn() bool { return s.Token%holdsPerClaim != 0 }

// Try is all that happened to one attempt.
type Try struct {
	Span
	Failed Instant // 0 if it did not
}

// gather puts the events together by the attempt that they are about.
func (h *History) gather() error {
	type key struct {
		worker string
		op     int64
	}
	found := make(map[key]*Try)
	killed := make(map[string]Instant)
	var mistakes []error
	for _, e := range h.Events {
		switch e.Kind {
		case Killed:
			killed[e.Worker] = e.At
		case Asked:
			k := key{e.Worker, e.Op}
			if found[k] != nil {
				mistakes = append(mistakes, fmt.Errorf("%s: asked twice", e.About()))
				continue
			}
			t := &Try{Span: Span{Attempt: Attempt{Worker: e.Worker, Op: e.Op, Name: e.Name, Asked: e.At, Limit: e.Limit}}}
			found[k] = t
			h.Attempts = append(h.Attempts, t)
		case Got, Failed, Extended, Told, Releasing, Released:
			t := found[key{e.Worker, e.Op}]
			if t == nil {
				mistakes = append(mistakes, fmt.Errorf("%s: %s, and nobody had asked", e.About(), e.Kind))
			} else if err := t.add(e); err != nil {
				mistakes = append(mistakes, err)
			}
		}
	}
	for _, t := range h.Attempts {
		t.Killed = killed[t.Worker]
	}
	if len(mistakes) > 0 {
		return fmt.Errorf("faults: a history that contradicts itself: %w", errors.Join(mistakes...))
	}
	return nil
}

// add takes up an event that comes after the attempt began.
func (t *Try) add(e Event) error {
	if e.Kind != Got && e.Kind != Failed && t.Got == 0 || e.Name != "" && e.Name != t.Name {
		return fmt.Errorf("%s: %s, and it does not hold that", e.About(), e.Kind)
	}
	var once *Instant
	switch e.Kind {
	case Got:
		once, t.Token = &t.Got, e.Token
	case Failed:
		if t.Failed != 0 || t.Got != 0 {
			return fmt.Errorf("%s: failed after it had returned", e.About())
		}
		t.Failed = e.At
	case Told:
		once, t.Reason = &t.Told, e.Err
	case Releasing:
		once = &t.Releasing
	case Released:
		if t.Releasing == 0 {
			return fmt.Errorf("%s: released, and nobody had called Release", e.About())
		}
		once, t.ReleaseErr = &t.Released, e.Err
	}
	if once != nil {
		if *once != 0 || t.Failed != 0 {
			return fmt.Errorf("%s: %s twice, or after it had failed", e.About(), e.Kind)
		}
		*once = e.At
	}
	if e.Deadline != 0 && e.Kind != Released { // an ended hold has none: the last that was known stands
		t.Deadline = e.Deadline
	}
	return nil
}

// endedByKill is how a hold ended whose worker was killed.
const endedByKill = "its worker was killed"

// believe finds the end of belief. What is open at the end of the history ends with it.
func (s *Span) believe(end Instant) {
	s.Until, s.Ending = end, "the end of the history"
	for _, e := range []struct {
		at   Instant
		what string
	}{{s.Killed, endedByKill}, {s.Deadline, "its deadline"}, {s.Told, "it was told of the loss"}, {s.Releasing, "it was released"}} {
		if e.at != 0 && e.at <= s.Until {
			s.Until, s.Ending = e.at, e.what
		}
	}
}

// Clean says that the hold ended by a Release that returned no error.
func (s *Span) Clean() bool { return s.Released != 0 && s.ReleaseErr == "" }

// BelievedAt says that the worker believed at t to hold the lock.
func (s *Span) BelievedAt(t Instant) bool { return s.Got <= t && t < s.Until }

// String names the hold for people.
func (s *Span) String() string {
	who := fmt.Sprintf("%s/%d", s.Worker, s.Op)
	if s.Token != 0 {
		who += fmt.Sprintf(" (token %d)", s.Token)
	}
	return who
}

// About names what the event is about.
func (e *Event) About() string { return fmt.Sprintf("%s/%d on %q", e.Worker, e.Op, e.Name) }
