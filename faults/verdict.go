package faults

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// Verdict is what a phase has shown.
type Verdict struct {
	History *history.History
	// Overlaps are pairs of workers that believed they held one lock.
	Overlaps []history.Overlap
	// Breaches are violations of the cell's statement, or of rules for all cells, as messages for people.
	Breaches []string
}

// Seen says that two believed they held one lock.
func (v *Verdict) Seen() bool { return len(v.Overlaps) > 0 }

// Judge judges a phase by belief, tokens and registers, against the statement of its cell. An unsafe cell need not show itself in each play.
func Judge(p *play.Played) (*Verdict, error) {
	h, err := history.NewHistory(p.Events)
	if err != nil {
		return nil, err
	}
	v := &Verdict{History: h, Overlaps: h.Overlaps(), Breaches: p.Stuck}
	if p.Cell.Outcome.IsSafe() {
		for _, o := range v.Overlaps {
			v.breach("the cell is stated to be %s, but two believed they held one lock:\n%s", p.Cell.Outcome, o.Describe(h))
		}
	}
	if p.Cell.Outcome == report.Unavailable {
		v.unavailable(p.Environment)
	}
	v.showsNothing(p)
	v.attempts()
	v.holds(p)
	v.deadlines(p.Environment)
	if p.Environment.Tokens && p.Cell.Outcome != report.Unsafe {
		for _, t := range h.TokenFaults() {
			v.breach("tokens must grow in the order of grants: %s", t.Describe(h))
		}
		if p.Lost != 0 {
			v.breach("%d updates were lost behind a fence", p.Lost)
		}
	}
	return v, nil
}

func (v *Verdict) breach(format string, args ...any) {
	v.Breaches = append(v.Breaches, fmt.Sprintf(format, args...))
}

// showsNothing looks for reasons why a passing phase shows nothing: no fault was injected, no workers contended, or the fence refused nobody.
func (v *Verdict) showsNothing(p *play.Played) {
	if !p.Storm {
		refused := slices.ContainsFunc(v.History.Writes(), func(w history.Write) bool { return w.Refused })
		if p.Cell.Outcome == report.Fenced && v.Seen() && p.Environment.Tokens && !refused {
			v.breach("two believed they held one lock, and the fence refused nobody")
		}
		return // the overlap shows everything else about a script
	}
	if len(v.History.Injections()) == 0 {
		v.breach("the cell does not say when it injects its fault (Injected)")
	}
	if len(v.History.Spans) > 0 && !v.History.Contended() {
		v.breach("no worker waited for a lock that another worker held")
	}
}

// promptly is within which time after their contexts' end acquisitions return (docs/guarantees.md, P6).
const promptly = 100 * time.Millisecond

// attempts looks for acquisitions that hung past their context's end. Machines are noisy: they have [play.Patience] times the stated time.
func (v *Verdict) attempts() {
	for _, s := range v.History.Attempts {
		if after := v.History.ReturnedLate(s); after > play.Patience*promptly {
			v.breach("%s: the acquisition went on for %v after its context's end", s, after)
		}
	}
}

// holds looks for holds with a token where none is stated, or the reverse, and for holders that were told of their end too late. It also looks for
// holds that were lost before their deadline although a lock survives the fault: the server, or another client, took away a valid claim. Where a
// closed connection ends claims, that may happen. A stopped worker is told late, never early.
func (v *Verdict) holds(p *play.Played) {
	survives := p.Cell.Outcome.IsSafe() && !p.Environment.Sessions && !p.Cell.Gone
	for _, s := range v.History.Spans {
		if (s.Token != 0) != p.Environment.Tokens {
			v.breach("%s has the token %d, but the environment states tokens: %t", s, s.Token, p.Environment.Tokens)
		}
		if after := v.History.ToldLate(s); p.Environment.Margin > 0 && after > play.Patience*p.Environment.Margin {
			v.breach("%s was not told of its end for %v after its deadline", s, after)
		}
		if survives && s.Told != 0 && s.Told < s.Deadline {
			v.breach("a hold was lost %v before its deadline, but a lock survives this fault: %s", s.Deadline.Sub(s.Told).Round(time.Millisecond), v.History.Line(s))
		}
	}
}

// deadlines looks for calls of Valid that returned true past the deadline, and for holds without the stated deadline, of which that could never be seen.
// It also looks for holds that leave less than the margin before the end of the TTL, counted from when they were recorded.
func (v *Verdict) deadlines(a *environment.Environment) {
	for _, e := range v.History.Events {
		left := e.Deadline.Sub(e.At)
		switch {
		case e.Late():
			v.breach("%s: Valid was true %v after the deadline of %s", e.About(), -left, v.History.Since(e.Deadline))
		case e.Kind == history.Got && (e.Deadline == 0) != (a.Margin == 0) && !v.gotTooLate(e):
			v.breach("%s: has a deadline: %t; the stated margin is %v", e.About(), e.Deadline != 0, a.Margin)
		case e.Kind != history.Got && e.Kind != history.Extended && e.Kind != history.Releasing:
		case left > a.TTL-a.Margin+play.LeastExtension:
			v.breach("%s: %s with a deadline in %v, which is more than the TTL of %v less the margin of %v", e.About(), e.Kind, left, a.TTL, a.Margin)
		}
	}
}

// gotTooLate says that the hold had ended before its worker could look at it. The worker then records when it asked as the deadline.
func (v *Verdict) gotTooLate(e history.Event) bool {
	return slices.ContainsFunc(v.History.Spans, func(s *history.Span) bool { return s.Worker == e.Worker && s.Op == e.Op && s.Asked == e.Deadline })
}

// awayPart: an unavailability shows something if it lasts at least the TTL divided by awayPart.
const awayPart = 20

// unavailable looks for holds got while nobody should get one, and for unavailabilities that are too short, or in which nobody wanted a lock.
func (v *Verdict) unavailable(a *environment.Environment) {
	spells := v.History.Aways()
	if len(spells) == 0 {
		v.breach("the cell is stated to be unavailable, but it does not say from when to when (Away, Back)")
	}
	for _, away := range spells {
		for _, t := range v.History.Spans {
			joined := t.Mode.Shared && t.HandedOn() && t.ClaimAsked < away.From // a reader joins a valid claim of its process without the server
			if away.From < t.Got && t.Got < away.To && !joined {
				v.breach("the cell is stated to be unavailable, but %s got a lock %v after that began",
					t.String(), t.Got.Sub(away.From).Round(time.Millisecond))
			}
		}
		wanted := v.History.Wanted(away)
		if lasted := away.To.Sub(away.From); !wanted || lasted < a.TTL/awayPart {
			v.breach("the cell is stated to be unavailable, but that is not shown: it lasted %v, and somebody wanted a lock: %t", lasted, wanted)
		}
	}
}
