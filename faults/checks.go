package faults

import (
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// inVain looks for what makes a phase a pass that shows nothing: a fault that did not happen, workers that were not in each other's way, holds
// without the tokens that are to be judged.
func (v *Verdict) inVain(p *play.Played) {
	for _, s := range v.History.Spans {
		if (s.Token != 0) != p.Environment.Tokens {
			v.breach("%s has the token %d; that holds have tokens is stated to be %t", s, s.Token, p.Environment.Tokens)
			break // the others will have none either
		}
	}
	if p.Cell.Inject == nil {
		if p.Cell.Outcome == report.Fenced && v.Seen() && p.Environment.Tokens && !slices.ContainsFunc(v.History.Writes(), func(w history.Write) bool { return w.Refused }) {
			v.breach("two believed to hold one lock, and the fence refused nobody")
		}
		return // what else a script is to show, its overlap says
	}
	if v.Figures.Faults == 0 {
		v.breach("the cell does not say when it injects its fault (Injected)")
	}
	if len(v.History.Spans) > 0 && !v.History.Contended() {
		v.breach("no worker waited for a lock that another worker held")
	}
}

// deadlines looks for holds without one where they are stated to have one, which are then never seen to be valid for too long; and for those
// that leave no margin before the end of the TTL, even had the server been asked only when they were written down.
func (v *Verdict) deadlines(a *environment.Environment) {
	for _, e := range v.History.Events {
		if e.Kind == history.Got && (e.Deadline == 0) != (a.Margin == 0) {
			v.breach("%s: got with a deadline: %t; the stated margin is %v", e.About(), e.Deadline != 0, a.Margin)
			return
		}
		if e.Deadline == 0 || e.Kind != history.Got && e.Kind != history.Extended && e.Kind != history.Releasing {
			continue
		}
		if left := e.Deadline.Sub(e.At); left > a.TTL-a.Margin+play.LeastExtension {
			v.breach("%s: %s with a deadline in %v, which is more than the TTL of %v less the margin of %v", e.About(), e.Kind, left, a.TTL, a.Margin)
			return // one tells as much as all
		}
	}
}

// awayPart is the part of the TTL for which nobody must have been able to acquire, at least, for that to show something.
const awayPart = 20

// unavailable looks for holds that were got while nobody could, and for times in which nobody could that show nothing, since they are too short or
// nobody wanted a lock.
func (v *Verdict) unavailable(a *environment.Environment) {
	spells := v.History.Aways()
	if len(spells) == 0 {
		v.breach("the cell is stated to be unavailable, and it does not say from when to when (Away, Back)")
	}
	for _, away := range spells {
		for _, t := range v.History.Spans {
			joined := t.Mode.Shared && t.HandedOn() && t.ClaimAsked < away.From // a reader that joins others needs no server as long as their claim is valid
			if away.From < t.Got && t.Got < away.To && !joined {
				v.breach("the cell is stated to be unavailable, and %s got a lock %v after nobody could",
					t.String(), t.Got.Sub(away.From).Round(time.Millisecond))
			}
		}
		wanted := v.History.Wanted(away)
		if lasted := away.To.Sub(away.From); !wanted || lasted < a.TTL/awayPart {
			v.breach("the cell is stated to be unavailable, and that is not shown: it lasted %v, and somebody wanted a lock: %t", lasted, wanted)
		}
	}
}

// early looks for holds that were lost before their deadline, which no fault explains that a lock survives: the server, or another client, took away a
// claim that was well. Where the end of a connection ends claims, that can be; and a worker that was stopped learns late of what was due.
func (v *Verdict) early(p *play.Played) {
	if !p.Cell.Outcome.IsSafe() || p.Environment.Sessions || p.Cell.Gone {
		return
	}
	for _, s := range v.History.Spans {
		if s.Told != 0 && s.Deadline != 0 && s.Told < s.Deadline {
			v.breach("a hold was lost %v before its deadline, although a lock survives this fault: %s", s.Deadline.Sub(s.Told).Round(time.Millisecond), v.History.Line(s))
		}
	}
}
