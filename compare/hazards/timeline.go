package hazards

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
)

// builder makes a timeline. start is when there was first something to see, not the start of the processes.
type builder struct {
	*history.History
	start    history.Instant
	attempts []*history.Span // to get the play's lock
	writes   []history.Write
}

// ms converts an instant to milliseconds of the timeline.
func (d *builder) ms(t history.Instant) float64 {
	return max(0, math.Round(float64(t.Sub(d.start))/float64(time.Millisecond)*10)/10)
}

func (d *builder) bands(all []history.Spell) (bands []report.Band) {
	for _, s := range all {
		bands = append(bands, report.Band{From: d.ms(s.From), To: d.ms(s.To), What: s.What})
	}
	return bands
}

// clientName names a worker for people. The first one started is A.
func clientName(worker string) string {
	n, _ := strconv.Atoi(strings.TrimPrefix(worker, "w"))
	return string(rune('A' + n - 1))
}

// names finds the workers in a note.
var names = regexp.MustCompile(`\bw[0-9]+\b`)

// timeline draws a play: who held the lock named name when, and what was done to whom.
func timeline(h *history.History, name string) report.Run {
	d := &builder{History: h, start: h.End, writes: h.Writes()}
	for _, s := range h.Attempts {
		if s.Name == name {
			d.attempts, d.start = append(d.attempts, s), min(d.start, s.Asked)
		}
	}
	for _, s := range h.Injections() {
		d.start = min(d.start, s.From)
	}
	r := report.Run{Took: d.ms(h.End), Faults: d.bands(h.Injections())}
	for _, e := range h.Events {
		switch e.Kind {
		case history.Spawned:
			r.Lanes = append(r.Lanes, d.lane(e.Worker))
		case history.Noted:
			r.Marks = append(r.Marks, report.Mark{At: d.ms(e.At), What: names.ReplaceAllStringFunc(e.Err, clientName)})
		}
	}
	slices.SortStableFunc(r.Lanes, func(a, b report.Lane) int { return strings.Compare(a.Client, b.Client) })
	for _, o := range h.Overlaps() {
		r.Overlaps = append(r.Overlaps, report.Overlap{
			From: d.ms(o.From), To: d.ms(o.To), Older: clientName(o.First.Worker), Newer: clientName(o.Second.Worker),
			Tokens: [2]string{fmt.Sprint(o.First.Token), fmt.Sprint(o.Second.Token)},
		})
	}
	return r
}

// oneWait is the longest gap between attempts that count as one wait.
const oneWait = 500 * time.Millisecond

// lane is what one worker did. Repeated attempts are drawn as one wait.
func (d *builder) lane(worker string) report.Lane {
	l := report.Lane{Client: clientName(worker), Stopped: d.bands(d.Stops(worker)), Cut: d.bands(d.Cuts(worker))}
	for _, e := range d.Events {
		if e.Kind == history.Killed && e.Worker == worker {
			l.Killed = d.ms(e.At)
		}
	}
	var vain history.Instant // end of the last failed attempt
	for _, s := range d.attempts {
		if s.Worker != worker {
			continue
		}
		span := report.Span{Asked: d.ms(s.Asked), Until: d.ms(d.Over(s)), Ending: d.ending(s)}
		if s.Got != 0 {
			span.Held, span.Got, span.Until = true, span.Until, max(span.Until, d.ms(s.Until))
			if s.Token != 0 {
				span.Token = fmt.Sprint(s.Token)
			}
		}
		if n := len(l.Spans); !span.Held && vain != 0 && s.Asked.Sub(vain) < oneWait {
			l.Spans[n-1].Until, l.Spans[n-1].Ending = span.Until, span.Ending
		} else {
			l.Spans = append(l.Spans, span)
		}
		if vain = d.Over(s); span.Held {
			vain = 0
		}
	}
	for _, w := range d.writes {
		if w.By.Worker == worker {
			l.Writes = append(l.Writes, report.Write{At: d.ms(w.At), Refused: w.Refused, Late: w.Over != nil})
		}
	}
	return l
}

// ending says for people how a hold, or a failed attempt, ended.
func (d *builder) ending(s *history.Span) string {
	switch {
	case s.Got != 0:
		return s.Ending
	case s.Class == history.ClassTimedOut:
		return "given up"
	case s.Class == history.ClassHeld:
		return said(s.Class)
	case s.Failed != 0:
		return string(s.Class)
	case s.Killed != 0:
		return "killed"
	}
	return "the end"
}
