package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	overlapRows  = 4
	overlapLines = 6 // of text, where there is no room beside the bars
)

// drawOverlaps draws below the lanes when two believed, with both tokens, and returns where that ends. A text stands beside its bar, or, where it would have
// to be cut, below all of them.
func (t *timeline) drawOverlaps(top, gutter float64) float64 {
	t.line("rule", 0, top, t.w, top)
	if len(t.run.Overlaps) == 0 {
		return top
	}
	const row = 19.0
	t.text("danger", strong, start, 4, top+14.5, strong.fit("both", gutter-12))
	rows := 1
	var below []string
	for _, o := range t.run.Overlaps {
		text := t.tellOverlap(o)
		b := t.span(o.From, o.To, 0, 0)
		at := -1
		for i := range overlapRows {
			y := top + float64(i)*row
			if t.free(box{b.x0 - 1, y + 4, b.x1 + 1, y + row - 2}) && t.tryAround("danger", text, b.x0-1, b.x1+1, y+14) {
				at = i
				break
			}
		}
		if at < 0 {
			below, at = append(below, text), 0
			for i := range overlapRows {
				if y := top + float64(i)*row; t.free(box{b.x0 - 1, y + 4, b.x1 + 1, y + row - 2}) {
					at = i
					break
				}
			}
		}
		y := top + float64(at)*row
		b.y0, b.y1 = y+5, y+row-3
		t.titled(text, func() { t.rect("overlap", b, 2) })
		t.solid = append(t.solid, b)
		rows = max(rows, at+1)
	}
	bottom := top + float64(rows)*row
	for i, text := range below {
		if i == overlapLines-1 && len(below) > overlapLines {
			text = fmt.Sprintf("and %s more", count(len(below)-i))
		}
		if i == overlapLines {
			break
		}
		for _, line := range small.wrap(text, t.w-t.x.from-4, 3) {
			bottom += small.size * leading
			t.text("danger", small, start, t.x.from, bottom-2, line)
		}
	}
	return bottom + 3
}

func (t *timeline) tellOverlap(o Overlap) string {
	if o.Tokens == [2]uint64{} {
		return fmt.Sprintf("%s and %s, %s", o.Older, o.Newer, millis(o.To-o.From))
	}
	return fmt.Sprintf("%s (%s) and %s (%s), %s", o.Older, t.token(o.Tokens[0]), o.Newer, t.token(o.Tokens[1]), millis(o.To-o.From))
}

func (t *timeline) drawTimeAxis(top float64) float64 {
	d := "M" + number(t.x.from) + " " + number(top) + "H" + number(t.x.to)
	_, ticks := linear(t.x.high, 0, 1, max(2, int((t.x.to-t.x.from)/70)))
	for _, tick := range ticks {
		d += "M" + number(t.x.at(tick)) + " " + number(top) + "v4"
	}
	t.path("axis", d)
	for _, tick := range ticks {
		x, text := t.x.at(tick), axisTime(tick, t.x)
		half := small.width(text)/2 + 2
		t.tryText("soft", small, middle, math.Min(math.Max(x, half), t.w-half), top+16, text)
	}
	return top + 20
}

// axisTime is a time since the beginning, in the unit of its axis.
func axisTime(ms float64, s scale) string {
	if s.high < 1000 {
		return number(math.Round(finite(ms)*10)/10) + " ms"
	}
	return axisSeconds(ms)
}

// axisSeconds is a time since the beginning: "1.5 s".
func axisSeconds(ms float64) string {
	text := strconv.FormatFloat(math.Round(finite(ms))/1000, 'f', -1, 64)
	if math.Abs(ms) >= 1e9 {
		text = strconv.FormatFloat(finite(ms)/1000, 'g', 3, 64)
	}
	return text + " s"
}

// between is a part of a run: "0.5 to 1.25 s".
func between(from, to float64) string {
	return strings.TrimSuffix(axisSeconds(from), " s") + " to " + axisSeconds(to)
}

// duration is how long the picture of a run must be, in milliseconds.
func (r *Run) duration() float64 {
	longest := finite(r.Took)
	see := func(times ...float64) {
		for _, t := range times {
			longest = math.Max(longest, finite(t))
		}
	}
	for _, l := range r.Lanes {
		see(l.Killed)
		for _, s := range l.Spans {
			see(s.Asked, s.Until)
		}
		for _, b := range slices.Concat(l.Stopped, l.Cut) {
			see(b.To)
		}
		for _, w := range l.Writes {
			see(w.At)
		}
	}
	for _, m := range r.Marks {
		see(m.At)
	}
	if longest <= 0 {
		return 1
	}
	return longest
}

// tokenNames makes short names of a run's tokens. Long ones that begin alike are told by what differs, and at least by their last four digits:
// "…4817". Which is the greater stays to be seen, as they are equally long.
func tokenNames(r *Run) func(uint64) string {
	var all []string
	for _, l := range r.Lanes {
		for _, s := range l.Spans {
			if s.Token != 0 {
				all = append(all, strconv.FormatUint(s.Token, 10))
			}
		}
	}
	for _, o := range r.Overlaps {
		for _, token := range o.Tokens {
			if token != 0 {
				all = append(all, strconv.FormatUint(token, 10))
			}
		}
	}
	common := 0
	if len(all) > 0 && len(all[0]) > 7 {
		common = len(all[0]) - 4
		for _, t := range all {
			if len(t) != len(all[0]) {
				common = 0
			}
			for common > 0 && t[:common] != all[0][:common] {
				common--
			}
		}
	}
	return func(token uint64) string {
		text := strconv.FormatUint(token, 10)
		switch {
		case token == 0:
			return "no token"
		case common > 2 && len(text) > common:
			return "…" + text[common:]
		}
		return text
	}
}

// tellHold says of a hold what its bar shows.
func tellHold(client string, s Span) string {
	text := client + " holds the lock, " + between(s.Got, s.Until)
	if s.Token != 0 {
		text += fmt.Sprintf(", token %d", s.Token)
	}
	if s.Ending != "" {
		text += "; " + s.Ending
	}
	return text
}

// told is what a fault is called.
func told(what string) string {
	if what == "" {
		return "the fault"
	}
	return what
}

// tell is the picture of a run in words, for who cannot see it.
func (r *Run) tell() string {
	var all []string
	for _, f := range r.Faults {
		all = append(all, told(f.What)+", "+between(f.From, f.To))
	}
	for _, m := range r.Marks {
		all = append(all, fmt.Sprintf("%s at %s", m.What, axisSeconds(m.At)))
	}
	for _, l := range r.Lanes {
		for _, s := range l.Spans {
			if s.Held {
				all = append(all, tellHold(l.Client, s))
			} else {
				all = append(all, fmt.Sprintf("%s waits in vain, %s", l.Client, between(s.Asked, s.Until)))
			}
		}
	}
	for _, o := range r.Overlaps {
		all = append(all, fmt.Sprintf("%s and %s both believe to hold it, %s", o.Older, o.Newer, between(o.From, o.To)))
	}
	const most = 60
	if len(all) > most {
		all = append(all[:most], "and more")
	}
	return strings.Join(all, ". ") + "."
}
