package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	laneHeight = 42.0
	barTop     = 5.0  // of a hold, in its lane
	barBottom  = 22.0 //
	stripTop   = 25.0 // of what stands below the hold: writes, and what happened to the client
	maxLanes   = 24
	shortest   = 4.0 // of what lasted no time, so that it can be seen
)

// timeline draws who held the lock when. It is drawn from the back to the front: the faults, what happened to the clients, their holds, and the texts
// where there is room for them.
type timeline struct {
	*canvas
	run   *Run
	x     scale
	token func(Token) string
}

// timelinePicture shows who held the lock when in a run of a cell.
func (r *Report) timelinePicture(c *Cell, run int) *picture {
	about := strings.TrimSpace(fmt.Sprintf("Who held the lock when: %s on %s %s", c.Hazard, r.title(c.Subject), c.Variant))
	return draw(c.ID(), about, c.Runs[run].Observed, func(width float64) *canvas { return drawTimeline(&c.Runs[run], width) })
}

func drawTimeline(r *Run, width float64) *canvas {
	t := &timeline{canvas: &canvas{w: width, h: 1e6}, run: r, token: tokenNames(r)}
	lanes := slices.DeleteFunc(slices.Clone(r.Lanes), func(l Lane) bool { // those that did nothing with this lock
		return len(l.Spans)+len(l.Stopped)+len(l.Cut)+len(l.Writes) == 0 && l.Killed == 0
	})
	hidden := max(0, len(lanes)-maxLanes)
	lanes = lanes[:len(lanes)-hidden]
	gutter := strong.width("both")
	for _, l := range lanes {
		gutter = max(gutter, strong.width(l.Client))
	}
	gutter = min(gutter, width*0.2) + 16
	t.x = scale{0, max(1, finite(r.Took)), gutter, width - 20, false}

	top, leaders, keys := t.drawRemarks(remarks(r, t.x))
	bottom := top + float64(max(1, len(lanes)))*laneHeight
	for _, f := range r.Faults {
		t.titled(told(f.What)+", "+between(f.From, f.To), func() { t.rect("fault-band", t.span(f.From, f.To, top, bottom), 0) })
	}
	leaders(bottom)
	for i := range lanes {
		t.drawLane(&lanes[i], top+float64(i)*laneHeight, gutter)
	}
	switch {
	case len(lanes) == 0:
		t.text("soft", small, start, gutter, top+barBottom, small.fit("No client did anything.", width-gutter))
	case hidden > 0:
		bottom += 18
		t.text("soft", small, start, gutter, bottom-4, small.fit(fmt.Sprintf("%s more clients are not shown.", count(hidden)), width-gutter))
	}
	bottom = t.drawTimeAxis(t.drawOverlaps(bottom, gutter))
	for _, key := range keys {
		bottom = t.lines("remark", key, 4, bottom, 2) + 2
	}
	t.h = math.Ceil(bottom + 5)
	return t.canvas
}

// lines writes text in so many lines at most, and returns where that ends.
func (t *timeline) lines(class, text string, x, bottom float64, most int) float64 {
	for _, line := range small.wrap(text, t.w-x-4, most) {
		bottom += small.size * leading
		t.text(class, small, start, x, bottom, line)
	}
	return bottom
}

// span is the box of what lasted from one time to another, wide enough to be seen.
func (t *timeline) span(from, to, y0, y1 float64) box {
	b := box{t.x.at(from), y0, t.x.at(to), y1}
	if b.x1-b.x0 < shortest {
		mid := (b.x0 + b.x1) / 2
		b.x0, b.x1 = mid-shortest/2, mid+shortest/2
	}
	return b
}

func (t *timeline) drawLane(l *Lane, y, gutter float64) {
	t.line("rule", 0, y, t.w, y)
	t.text("", strong, start, 4, y+barBottom-4, strong.fit(l.Client, gutter-12))
	alive, middleOfBar := t.x.to, y+barBottom+1.5
	if l.Killed > 0 {
		alive = t.x.at(l.Killed)
	}
	t.line("alive", t.x.from, middleOfBar, alive, middleOfBar)
	for i, b := range slices.Concat(l.Stopped, l.Cut) {
		class := map[bool]string{true: "stopped", false: "cut"}[i < len(l.Stopped)]
		t.titled(l.Client+": "+class+" "+b.What+", "+between(b.From, b.To), func() { t.rect(class, t.span(b.From, b.To, y+2, y+laneHeight-2), 2) })
	}
	for _, s := range l.Spans {
		t.drawSpan(l, s, y)
	}
	for _, b := range l.Stopped {
		t.rect("stopped over", t.span(b.From, b.To, y+barTop, y+barBottom), 2)
	}
	if l.Killed > 0 {
		t.titled(fmt.Sprintf("%s is killed at %s", l.Client, axisSeconds(l.Killed)), func() { t.cross("killed", alive, middleOfBar, 6) })
		t.solid = append(t.solid, box{alive - 8, y + barBottom - 6, alive + 8, y + barBottom + 9})
	}
	t.drawWrites(l, y)
	for i, b := range slices.Concat(l.Stopped, l.Cut) {
		what := b.What
		if what == "" {
			what = map[bool]string{true: "stopped", false: "cut off"}[i < len(l.Stopped)]
		}
		s := t.span(b.From, b.To, y, y)
		t.tryText("haloed", small, middle, (s.x0+s.x1)/2, y+stripTop+12, small.fit(what, s.x1-s.x0-5))
	}
	for _, s := range l.Spans {
		t.labelSpan(l, s, y)
	}
	if l.Killed > 0 {
		t.beside("haloed soft", "killed", box{x0: alive - 5, x1: alive + 5}, y+stripTop+12)
	}
}

// beside writes a text to the right of b, or to its left, if there is room.
func (t *timeline) beside(class, text string, b box, y float64) bool {
	return t.tryText(class, small, start, b.x1+5, y, text) || b.x0-4-small.width(text) > t.x.from && t.tryText(class, small, end, b.x0-4, y, text)
}

func (t *timeline) drawSpan(l *Lane, s Span, y float64) {
	mid, waited := y+(barTop+barBottom)/2, s.Until
	if s.Held {
		waited = s.Got
	}
	if b := t.span(s.Asked, waited, mid-2.5, mid+2.5); waited > s.Asked {
		t.titled(fmt.Sprintf("%s waits, %s", l.Client, between(s.Asked, waited)), func() { t.rect("waiting", b, 0) })
		t.solid = append(t.solid, b)
	}
	if !s.Held {
		x := t.x.at(s.Until)
		t.circle("gave-up", x, mid, 3.5)
		t.solid = append(t.solid, box{x - 4, mid - 4, x + 4, mid + 4})
		return
	}
	b := t.span(s.Got, s.Until, y+barTop, y+barBottom)
	t.titled(tellHold(l.Client, s), func() {
		t.rect("hold", b, 2)
		for _, o := range t.run.Overlaps {
			if from, to := max(o.From, s.Got), min(o.To, s.Until); (o.Older == l.Client || o.Newer == l.Client) && from < to {
				t.rect("overlap", t.span(from, to, y+barTop, y+barBottom), 2)
			}
		}
	})
	t.solid = append(t.solid, b)
}

// labelSpan writes the token into the bar where nothing lies over it, or else below it, and what ended the hold beside it.
func (t *timeline) labelSpan(l *Lane, s Span, y float64) {
	base, ending := y+barBottom-4.5, strings.TrimPrefix(s.Ending, "killed")
	if !s.Held {
		t.tryText("haloed soft", small, start, t.span(s.Asked, s.Until, 0, 0).x1+5, base, ending)
		return
	}
	b := t.span(s.Got, s.Until, y+barTop, y+barBottom)
	if b.x1-b.x0 < 10 { // it could be overlooked
		ending = strings.TrimSuffix("held for "+millis(s.Until-s.Got)+"; "+ending, "; ")
	}
	t.beside("haloed soft", ending, b, base)
	if s.Token == 0 {
		return
	}
	from, to := s.Got, s.Until // the first part of the bar that is bare
	over := slices.Clone(l.Stopped)
	for _, o := range t.run.Overlaps {
		over = append(over, Band{From: o.From, To: o.To})
	}
	for _, o := range over {
		switch {
		case o.From <= from && o.To > from:
			from = o.To
		case o.From > from && o.From < to:
			to = o.From
		}
	}
	name := t.token(s.Token)
	in := boxOf(strong, start, t.x.at(from)+5, base, name)
	if in.x1+3 <= t.x.at(to) && !slices.ContainsFunc(t.labels, func(l label) bool { return l.meets(in) }) {
		t.text("on-hold", strong, start, in.x0, base, name)
		return
	}
	name = "token " + name
	for x := b.x0 + 2; x < max(b.x1-20, b.x0+30); x += 7 {
		if t.tryText("haloed soft", small, start, x, y+stripTop+12, name) {
			return
		}
	}
	t.tryText("haloed soft", small, end, b.x0-4, y+stripTop+12, name)
}

// drawWrites draws a tick for each write. Where two would touch, one that was refused or late is drawn.
func (t *timeline) drawWrites(l *Lane, y float64) {
	weight := func(w Write) int {
		return map[bool]int{true: 2}[w.Refused] + map[bool]int{true: 1}[w.Late]
	}
	writes := slices.Clone(l.Writes)
	slices.SortStableFunc(writes, func(a, b Write) int { return weight(b) - weight(a) })
	var taken []box
	for _, w := range writes {
		x, top := t.x.at(w.At), y+barBottom+1.5
		b := box{x - 2.5, top, x + 2.5, y + laneHeight - 3}
		if slices.ContainsFunc(taken, b.meets) {
			continue
		}
		taken = append(taken, b)
		what := map[bool]string{true: "writes after a newer holder did", false: "writes"}[w.Late]
		if w.Refused {
			what = "tries to write and is refused"
		}
		t.titled(fmt.Sprintf("%s %s at %s", l.Client, what, axisSeconds(w.At)), func() { t.write(w, x, top) })
		t.solid = append(t.solid, box{x - 4, top, x + 4, top + 16})
	}
}

// write draws a write: a cross if it was refused, a wedge if it was late, and a dot otherwise.
func (c *canvas) write(w Write, x, top float64) {
	switch {
	case w.Refused:
		c.line("write refused", x, top, x, top+8)
		c.cross("write refused", x, top+12, 3.2)
	case w.Late:
		c.line("write late", x, top, x, top+8)
		c.path("write late mark", fmt.Sprintf("M%s %sl4 -7h-8z", number(x), number(top+15)))
	default:
		c.line("write", x, top, x, top+8)
		c.circle("write mark", x, top+9.5, 2.4)
	}
}

// drawOverlaps shows below the lanes when two clients held the lock, with their tokens, and returns where that ends.
func (t *timeline) drawOverlaps(top, gutter float64) float64 {
	const row, most = 19.0, 5
	t.line("rule", 0, top, t.w, top)
	if len(t.run.Overlaps) == 0 {
		return top
	}
	t.text("danger", strong, start, 4, top+14.5, strong.fit("both", gutter-12))
	bottom := top + row
	for i, o := range t.run.Overlaps {
		b, text := t.span(o.From, o.To, top+5, top+row-3), t.tellOverlap(o)
		t.titled(text, func() { t.rect("overlap", b, 2) })
		t.solid = append(t.solid, b)
		switch {
		case len(t.run.Overlaps) == 1 && t.beside("danger", text, b, top+14):
		case i < most:
			bottom = t.lines("danger", text, t.x.from, bottom-2, 3) + 2
		case i == most:
			bottom = t.lines("danger", fmt.Sprintf("and %s more", count(len(t.run.Overlaps)-i)), t.x.from, bottom-2, 1) + 2
		}
	}
	return bottom + 3
}

func (t *timeline) tellOverlap(o Overlap) string {
	if o.Tokens == [2]Token{} {
		return fmt.Sprintf("%s and %s, %s", o.Older, o.Newer, millis(o.To-o.From))
	}
	return fmt.Sprintf("%s (%s) and %s (%s), %s", o.Older, t.token(o.Tokens[0]), o.Newer, t.token(o.Tokens[1]), millis(o.To-o.From))
}

func (t *timeline) drawTimeAxis(top float64) float64 {
	t.line("axis", t.x.from, top, t.x.to, top)
	_, ticks := linear(t.x.high, 0, 1, max(2, int((t.x.to-t.x.from)/70)))
	for _, tick := range ticks {
		x, text := t.x.at(tick), axisTime(tick, t.x)
		t.line("axis", x, top, x, top+4)
		half := small.width(text)/2 + 2
		t.tryText("soft", small, middle, min(max(x, half), t.w-half), top+16, text)
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
	if math.Abs(ms) >= 1e9 {
		return strconv.FormatFloat(finite(ms)/1000, 'g', 3, 64) + " s"
	}
	return strconv.FormatFloat(math.Round(finite(ms))/1000, 'f', -1, 64) + " s"
}

// between is a part of a run: "0.5 to 1.25 s".
func between(from, to float64) string {
	return strings.TrimSuffix(axisSeconds(from), " s") + " to " + axisSeconds(to)
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

// told is the name of a fault.
func told(what string) string {
	if what == "" {
		return "the fault"
	}
	return what
}

// timelineLegend explains what timelines consist of.
func timelineLegend() *picture {
	return draw("legend", "What the timelines consist of", "", drawTimelineLegend)
}

func drawTimelineLegend(width float64) *canvas {
	const w = 34.0
	c := &canvas{w: width, h: 1e6}
	bar := func(class string, half float64) func(x, y float64) {
		return func(x, y float64) { c.rect(class, box{x, y - half, x + w, y + half}, 2) }
	}
	write := func(one Write) func(x, y float64) { return func(x, y float64) { c.write(one, x+w/2, y-8) } }
	entries := []struct {
		text string
		draw func(x, y float64)
	}{
		{"holds the lock, with its token", func(x, y float64) { bar("hold", 8)(x, y); c.text("on-hold", strong, start, x+6, y+4.5, "34") }},
		{"waits for it", bar("waiting", 2.5)},
		{"gave up", func(x, y float64) { bar("waiting", 2.5)(x-8, y); c.circle("gave-up", x+w-6, y, 3.5) }},
		{"two clients hold it at once", bar("overlap", 8)},
		{"its process is stopped", bar("stopped", 9)},
		{"its network is cut", bar("cut", 9)},
		{"the fault lasts", bar("fault-band", 9)},
		{"is killed", func(x, y float64) { c.line("alive", x, y, x+w/2, y); c.cross("killed", x+w/2, y, 6) }},
		{"writes", write(Write{})},
		{"its late write is refused", write(Write{Refused: true})},
		{"its late write lands", write(Write{Late: true})},
	}
	columns := max(1, int(width/310))
	for i, e := range entries {
		x, y := 4+310*float64(i%columns), 15+26*float64(i/columns)
		e.draw(x, y)
		c.text("", small, start, x+w+8, y+4, e.text)
	}
	c.h = 26*math.Ceil(float64(len(entries))/float64(columns)) + 8
	return c
}
