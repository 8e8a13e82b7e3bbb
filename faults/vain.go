package faults

import (
	"slices"
	"time"
)

// inVain looks for what makes a phase a pass that shows nothing: a fault that did not happen, workers that were not in each other's way, holds
// without the tokens that are to be judged.
func (v *Verdict) inVain(p *Played) {
	for i := range v.History.Spans {
		if s := &v.History.Spans[i]; (s.Token != 0) != p.Arrangement.Tokens {
			v.breach("%s has the token %d; that holds have tokens is stated to be %t", s, s.Token, p.Arrangement.Tokens)
			break // the others will have none either
		}
	}
	if p.Cell.Strike == nil {
		if p.Cell.Outcome == UnsafeFenced && v.Seen() && p.Arrangement.Tokens && !v.History.refusedStale() {
			v.breach("two believed to hold one lock, and the fence refused nobody")
		}
		return // what else a script is to show, its overlap says
	}
	if v.Figures.Faults == 0 {
		v.breach("the strike of the cell does not say when it strikes (Struck)")
	}
	if len(v.History.Spans) > 0 && !v.History.contended() {
		v.breach("no worker waited for a lock that another worker held")
	}
}

// contended says that a worker asked for a lock while another one held it, and got it next.
func (h *History) contended() bool {
	last := make(map[string]*Span)
	for i := range h.Spans {
		s := &h.Spans[i]
		if o := last[s.Name]; o != nil && o.Worker != s.Worker && s.Asked < o.Until {
			return true
		}
		last[s.Name] = s
	}
	return false
}

// refusedStale says that the fence refused somebody for a newer token.
func (h *History) refusedStale() bool {
	return slices.ContainsFunc(h.Events, func(e Event) bool { return e.Kind == Refused && e.Class == ClassStale })
}

// deadlines looks for holds without one where they are stated to have one, which are then never seen to be valid for too long; and for those
// that leave no margin before the end of the TTL, even had the server been asked only when they were written down.
func (v *Verdict) deadlines(a *Arrangement) {
	for _, e := range v.History.Events {
		if e.Kind == Got && (e.Deadline == 0) != (a.Margin == 0) {
			v.breach("%s: got with a deadline: %t; the stated margin is %v", e.about(), e.Deadline != 0, a.Margin)
			return
		}
		if e.Deadline == 0 || e.Kind != Got && e.Kind != Extended && e.Kind != Releasing {
			continue
		}
		if left := e.Deadline.Sub(e.At); left > a.TTL-a.Margin+leastExtension {
			v.breach("%s: %s with a deadline in %v, which is more than the TTL of %v less the margin of %v", e.about(), e.Kind, left, a.TTL, a.Margin)
			return // one tells as much as all
		}
	}
}

// awayPart is the part of the TTL for which nobody must have been able to acquire, at least, for that to show something.
const awayPart = 20

// unavailable looks for holds that were got while nobody could, and for times in which nobody could that show nothing, since they are too short or
// nobody wanted a lock.
func (v *Verdict) unavailable(a *Arrangement) {
	spells := v.History.spells(func(e *Event) (begins, ends bool) {
		return e.Kind == Noted && e.Err == Away, e.Kind == Noted && e.Err == Back
	})
	if len(spells) == 0 {
		v.breach("the cell is stated to be unavailable, and its strike does not say from when to when (Away, Back)")
	}
	for _, away := range spells {
		wanted := false
		for _, t := range v.History.attempts {
			returned := firstOf(t.Got, t.failed, t.Killed, v.History.End)
			wanted = wanted || t.Asked < away.To && returned > away.From
			if away.From < t.Got && t.Got < away.To {
				v.breach("the cell is stated to be unavailable, and %s got a lock %v after nobody could",
					t.String(), t.Got.Sub(away.From).Round(time.Millisecond))
			}
		}
		if lasted := away.To.Sub(away.From); !wanted || lasted < a.TTL/awayPart {
			v.breach("the cell is stated to be unavailable, and that is not shown: it lasted %v, and somebody wanted a lock: %t", lasted, wanted)
		}
	}
}

// early looks for holds that were lost before their deadline, which no fault explains that a lock survives: the server, or another client, took away a
// claim that was well. Where the end of a connection ends claims, that can be; and a worker that was stopped learns late of what was due.
func (v *Verdict) early(p *Played) {
	if !p.Cell.Outcome.IsSafe() || p.Arrangement.Sessions || p.Cell.Gone {
		return
	}
	for i := range v.History.Spans {
		if s := &v.History.Spans[i]; s.Told != 0 && s.Deadline != 0 && s.Told < s.Deadline {
			v.breach("a hold was lost %v before its deadline, although a lock survives this fault: %s", s.Deadline.Sub(s.Told).Round(time.Millisecond), v.History.Line(s))
		}
	}
}
