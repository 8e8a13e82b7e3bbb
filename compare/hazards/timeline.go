package hazards

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
)

// drawing is a timeline in the making. Start is when there was first something to see: not the start of processes.
type drawing struct {
	*history.History
	verdict  *verdict
	start    history.Instant
	attempts []*history.Span // to get the lock that the play is about
}

// ms is an instant in milliseconds of the timeline.
func (d *drawing) ms(t history.Instant) float64 {
	return max(0, math.Round(float64(t.Sub(d.start))/float64(time.Millisecond)*10)/10)
}

func (d *drawing) bands(all []history.Spell) (bands []report.Band) {
	for _, s := range all {
		bands = append(bands, report.Band{From: d.ms(s.From), To: d.ms(s.To)})
	}
	return bands
}

// lane is what a worker is called for people: the one that was started first is A.
func lane(worker string) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(worker, "w"))
	return string(rune('A' + n - 1))
}

// names are the workers in a note.
var names = regexp.MustCompile(`\bw[0-9]+\b`)

// timeline draws a play: who held the lock when, and what was done to whom. Locks of other names are left out.
func timeline(h *history.History, p *trial, v *verdict) report.Run {
	d := &drawing{History: h, verdict: v, start: h.End}
	for _, s := range h.Attempts {
		if s.Name == p.Name() {
			d.attempts, d.start = append(d.attempts, s), min(d.start, s.Asked)
		}
	}
	for _, s := range h.Injections() {
		d.start = min(d.start, s.From)
	}
	r := report.Run{Class: v.class, Observed: v.observed, Took: d.ms(h.End), Faults: d.bands(h.Injections())}
	for _, e := range h.Events {
		forJudges := slices.Contains([]string{history.Injected, history.Healed, history.Away, history.Back}, e.Err) || strings.HasPrefix(e.Err, history.Removed)
		switch {
		case e.Kind == history.Spawned:
			r.Lanes = append(r.Lanes, d.lane(p, e.Worker))
		case e.Kind == history.Noted && !forJudges:
			r.Marks = append(r.Marks, report.Mark{At: d.ms(e.At), What: names.ReplaceAllStringFunc(e.Err, lane)})
		}
	}
	slices.SortStableFunc(r.Lanes, func(a, b report.Lane) int { return strings.Compare(a.Client, b.Client) })
	for _, o := range v.overlaps {
		r.Overlaps = append(r.Overlaps, report.Overlap{
			From: d.ms(o.From), To: d.ms(o.To), Older: lane(o.First.Worker), Newer: lane(o.Second.Worker),
			Tokens: [2]report.Token{report.Token(o.First.Token), report.Token(o.Second.Token)},
		})
	}
	return r
}

// oneWait is how long after an attempt that failed the next one belongs to the same waiting.
const oneWait = 500 * time.Millisecond

// lane is what one worker did. What it asked for again and again is one time of waiting.
func (d *drawing) lane(p *trial, worker string) report.Lane {
	l := report.Lane{Client: lane(worker), Stopped: d.bands(d.Stops(worker))}
	for _, e := range d.Events {
		if e.Kind == history.Killed && e.Worker == worker {
			l.Killed = d.ms(e.At)
		}
	}
	for _, c := range p.Cuts {
		if c.Worker == worker {
			to := c.To
			if to == 0 {
				to = d.End
			}
			l.Cut = append(l.Cut, report.Band{From: d.ms(c.From), To: d.ms(to), What: c.What})
		}
	}
	var vain history.Instant // when the last attempt was over, if nothing came of it
	for _, s := range d.attempts {
		if s.Worker != worker {
			continue
		}
		over, how := ending(d.History, s)
		switch {
		case s.Got != 0:
			l.Spans, vain = append(l.Spans, d.held(s)), 0
			continue
		case vain != 0 && s.Asked.Sub(vain) < oneWait:
			last := &l.Spans[len(l.Spans)-1]
			last.Until, last.Ending = d.ms(over), how
		default:
			l.Spans = append(l.Spans, report.Span{Asked: d.ms(s.Asked), Until: d.ms(over), Ending: how})
		}
		vain = over
	}
	for _, w := range d.verdict.writes {
		if w.Worker == worker {
			l.Writes = append(l.Writes, report.Write{At: d.ms(w.At), Refused: w.refused(), Late: w.over != nil})
		}
	}
	return l
}

// held is a hold.
func (d *drawing) held(s *history.Span) report.Span {
	how := "still held at the end"
	switch s.Until {
	case s.Releasing:
		how = "released"
	case s.Told:
		how = "told that it was lost"
	case s.Killed:
		how = "killed"
	case s.Deadline:
		how = "the deadline passed"
	}
	return report.Span{
		Asked: d.ms(s.Asked), Held: true, Got: d.ms(s.Got), Until: max(d.ms(s.Got), d.ms(s.Until)), Token: report.Token(s.Token), Ending: how,
	}
}
