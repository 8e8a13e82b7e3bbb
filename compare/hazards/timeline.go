package hazards

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
)

// clock makes milliseconds of a play of instants.
type clock struct{ start history.Instant }

func (c clock) ms(t history.Instant) float64 {
	return max(0, math.Round(float64(t.Sub(c.start))/float64(time.Millisecond)*10)/10)
}

func (c clock) band(s history.Spell) report.Band {
	return report.Band{From: c.ms(s.From), To: c.ms(s.To)}
}

// lane is what a worker is called for people: that which was started first is A.
func lane(worker string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(worker, "w"))
	if err != nil || n < 1 || n > 26 {
		return worker
	}
	return string(rune('A' + n - 1))
}

// names are the workers in a text.
var names = regexp.MustCompile(`\bw[0-9]+\b`)

// plain is a note for people.
func plain(note string) string { return names.ReplaceAllStringFunc(note, lane) }

// timeline draws a play: who held the lock when, and what was done to whom. Locks of other names are left out; what was asked for again and again is one time
// of waiting.
func timeline(h *history.History, p *trial, v *verdict) report.Run {
	all := slices.DeleteFunc(attempts(h), func(a *attempt) bool { return a.Name != p.Name() })
	c := clock{start: beginning(h, all)}
	r := report.Run{Class: v.class, Observed: v.observed, Took: c.ms(h.End)}
	for _, e := range h.Events {
		switch {
		case e.Kind == history.Spawned:
			r.Lanes = append(r.Lanes, c.lane(h, p, v, e.Worker, all))
		case e.Kind == history.Noted && !structural(e.Err):
			r.Marks = append(r.Marks, report.Mark{At: c.ms(e.At), What: plain(e.Err)})
		}
	}
	slices.SortStableFunc(r.Lanes, func(a, b report.Lane) int { return cmp.Compare(a.Client, b.Client) })
	for _, s := range h.Injections() {
		r.Faults = append(r.Faults, c.band(s))
	}
	for _, o := range v.overlaps {
		r.Overlaps = append(r.Overlaps, report.Overlap{
			From: c.ms(o.From), To: c.ms(o.To), Older: lane(o.First.Worker), Newer: lane(o.Second.Worker),
			Tokens: [2]report.Token{report.Token(o.First.Token), report.Token(o.Second.Token)},
		})
	}
	return r
}

// beginning is when there was first something to see: not the start of processes.
func beginning(h *history.History, all []*attempt) history.Instant {
	begun := h.End
	if len(all) > 0 {
		begun = all[0].Asked
	}
	for _, s := range h.Injections() {
		begun = min(begun, s.From)
	}
	return begun
}

// structural says that a note is for judges, not for people.
func structural(note string) bool {
	return slices.Contains([]string{history.Injected, history.Healed, history.Away, history.Back}, note) || strings.HasPrefix(note, history.Removed)
}

// lane is what one worker did.
func (c clock) lane(h *history.History, p *trial, v *verdict, worker string, all []*attempt) report.Lane {
	l := report.Lane{Client: lane(worker)}
	for _, e := range h.Events {
		if e.Kind == history.Killed && e.Worker == worker {
			l.Killed = c.ms(e.At)
		}
	}
	for _, s := range h.Stops(worker) {
		l.Stopped = append(l.Stopped, c.band(s))
	}
	for _, cut := range p.cuts {
		if cut.to == 0 {
			cut.to = h.End
		}
		if cut.worker == worker {
			l.Cut = append(l.Cut, report.Band{From: c.ms(cut.from), To: c.ms(cut.to), What: cut.what})
		}
	}
	var vain *attempt // the last one, if nothing came of it
	for _, a := range all {
		switch {
		case a.Worker != worker:
		case a.Got != 0:
			l.Spans = append(l.Spans, c.held(a.Span))
			vain = nil
		case vain != nil && a.Asked.Sub(vain.over) < oneWait:
			last := &l.Spans[len(l.Spans)-1]
			last.Until, last.Ending = c.ms(a.over), a.ending
			vain = a
		default:
			l.Spans = append(l.Spans, report.Span{Asked: c.ms(a.Asked), Until: c.ms(a.over), Ending: a.ending})
			vain = a
		}
	}
	for _, w := range v.writes {
		if w.Worker == worker {
			l.Writes = append(l.Writes, report.Write{At: c.ms(w.At), Refused: w.refused, Late: w.over != nil})
		}
	}
	return l
}

// oneWait is how long after an attempt that failed the next one belongs to the same waiting.
const oneWait = 500 * time.Millisecond

// held is the hold that an attempt became.
func (c clock) held(s *history.Span) report.Span {
	return report.Span{
		Asked: c.ms(s.Asked), Held: true, Got: c.ms(s.Got), Until: max(c.ms(s.Got), c.ms(s.Until)), Token: report.Token(s.Token), Ending: ended(s),
	}
}

// ended says for people how a hold ended.
func ended(s *history.Span) string {
	switch s.Until {
	case s.Releasing:
		return "released"
	case s.Told:
		return "told that it was lost"
	case s.Killed:
		return "killed"
	case s.Deadline:
		return "the deadline passed"
	}
	return "still held at the end"
}
