package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	laneHeight = 42.0
	barTop     = 5.0  // of a hold, in its lane
	barBottom  = 22.0 //
	stripTop   = 25.0 // of what stands below the hold: writes, and what befell the client
	maxLanes   = 24
	shortest   = 4.0 // of what lasted no time, so that it can be seen
)

// timeline draws who held the lock when. It is drawn from the back to the front: the faults, what befell the clients, their holds, and the texts, each
// only where there is room.
type timeline struct {
	*canvas
	run    *Run
	x      scale
	lanes  []Lane
	top    float64            // of the first lane
	lane   map[string]float64 // the upper side of each client's
	token  func(uint64) string
	hidden int // lanes that are not shown
}

func drawTimeline(r *Run, width float64) *canvas {
	t := &timeline{canvas: &canvas{w: width, h: 1e6}, run: r, token: tokenNames(r), lane: make(map[string]float64)}
	t.chooseLanes()
	names := []string{"both"}
	for _, l := range t.lanes {
		names = append(names, l.Client)
	}
	gutter := math.Min(strong.widest(names...), width*0.2) + 16
	t.x = scale{0, r.duration(), gutter, width - 20, false}

	top, leaders, keys := t.drawRemarks(remarks(r, t.x))
	t.top = top
	bottom := t.top + float64(max(1, len(t.lanes)))*laneHeight
	for i, l := range t.lanes {
		t.lane[l.Client] = t.top + float64(i)*laneHeight
	}
	t.drawFaults(bottom)
	leaders(bottom)
	for i := range t.lanes {
		t.drawLane(&t.lanes[i], t.top+float64(i)*laneHeight, gutter)
	}
	if len(t.lanes) == 0 {
		t.text("soft", small, start, gutter, t.top+barBottom, small.fit("No client did anything.", width-gutter))
	}
	if t.hidden > 0 {
		bottom += 18
		t.text("soft", small, start, gutter, bottom-4, small.fit(fmt.Sprintf("%s more clients are not shown.", count(t.hidden)), width-gutter))
	}
	bottom = t.drawOverlaps(bottom, gutter)
	bottom = t.drawTimeAxis(bottom)
	for _, key := range keys {
		for _, line := range small.wrap(key, width-8, 2) {
			bottom += small.size * leading
			t.text("remark", small, start, 4, bottom, line)
		}
		bottom += 2
	}
	t.h = math.Ceil(bottom + 5)
	return t.canvas
}

// chooseLanes shows all clients if they are few, and otherwise those first whose holds overlap.
func (t *timeline) chooseLanes() {
	t.lanes = slices.DeleteFunc(slices.Clone(t.run.Lanes), func(l Lane) bool { // those who did something else meanwhile
		return len(l.Spans)+len(l.Stopped)+len(l.Cut)+len(l.Writes) == 0 && l.Killed == 0
	})
	if t.hidden = len(t.lanes) - maxLanes; t.hidden <= 0 {
		t.hidden = 0
		return
	}
	overlaps := func(l Lane) bool {
		return slices.ContainsFunc(t.run.Overlaps, func(o Overlap) bool { return o.Older == l.Client || o.Newer == l.Client })
	}
	order := make([]int, len(t.lanes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(map[bool]int{true: 0, false: 1}[overlaps(t.lanes[a])], map[bool]int{true: 0, false: 1}[overlaps(t.lanes[b])])
	})
	order = order[:maxLanes]
	slices.Sort(order)
	all := t.lanes
	t.lanes = nil
	for _, i := range order {
		t.lanes = append(t.lanes, all[i])
	}
}

// span is the box of what lasted from one time to another, at least as wide as can be seen.
func (t *timeline) span(from, to, y0, y1 float64) box {
	b := box{t.x.at(from), y0, t.x.at(to), y1}
	if b.x1-b.x0 < shortest {
		mid := (b.x0 + b.x1) / 2
		b.x0, b.x1 = mid-shortest/2, mid+shortest/2
	}
	return b
}

func (t *timeline) drawFaults(bottom float64) {
	for _, f := range t.run.Faults {
		b := t.span(f.From, f.To, t.top, bottom)
		t.titled(told(f.What)+", "+between(f.From, f.To), func() { t.rect("fault-band", b, 0) })
	}
}

func (t *timeline) drawLane(l *Lane, y, gutter float64) {
	t.line("rule", 0, y, t.w, y)
	t.text("", strong, start, 4, y+barBottom-4, strong.fit(l.Client, gutter-12))
	alive := t.x.to
	if l.Killed > 0 {
		alive = t.x.at(l.Killed)
	}
	t.line("alive", t.x.from, y+barBottom+1.5, alive, y+barBottom+1.5)

	befell := slices.Concat(l.Stopped, l.Cut)
	whatBefell := func(i int) (class, what string) {
		switch {
		case i < len(l.Stopped):
			return "stopped", "stopped"
		case befell[i].What == "":
			return "cut", "cut off"
		}
		return "cut", befell[i].What
	}
	for i, b := range befell {
		class, what := whatBefell(i)
		t.titled(fmt.Sprintf("%s: %s, %s", l.Client, what, between(b.From, b.To)), func() { t.rect(class, t.span(b.From, b.To, y+2, y+laneHeight-2), 2) })
	}
	for _, s := range l.Spans {
		t.drawSpan(l, s, y)
	}
	for i, b := range befell {
		if i < len(l.Stopped) {
			t.rect("stopped over", t.span(b.From, b.To, y+barTop, y+barBottom), 2) // also over its holds
		}
	}
	if l.Killed > 0 {
		t.titled(fmt.Sprintf("%s is killed at %s", l.Client, axisSeconds(l.Killed)), func() { t.cross("killed", alive, y+barBottom+1.5, 6) })
		t.solid = append(t.solid, box{alive - 8, y + barBottom - 6, alive + 8, y + barBottom + 9})
	}
	t.drawWrites(l, y)
	for i, b := range befell {
		s := t.span(b.From, b.To, y, y)
		_, what := whatBefell(i)
		what = small.fit(what, s.x1-s.x0-5)
		if what != "" {
			t.tryText("haloed", small, middle, (s.x0+s.x1)/2, y+stripTop+12, what)
		}
	}
	for _, s := range l.Spans {
		t.labelSpan(l, s, y)
	}
	if l.Killed > 0 {
		t.tryAround("haloed soft", "killed", alive-9, alive+9, y+stripTop+12)
	}
}

// tryAround writes a text right of what lies between two coordinates, or left of it, if there is room.
func (t *timeline) tryAround(class, text string, x0, x1, y float64) bool {
	return t.tryText(class, small, start, x1+4, y, text) || x0-4-small.width(text) > t.x.from && t.tryText(class, small, end, x0-4, y, text)
}

// tryAlong writes a text below what lies in b: as near to its beginning as there is room, or left of it if it is short.
func (t *timeline) tryAlong(class, text string, b box, y float64) {
	for x := b.x0 + 2; x < math.Max(b.x1-20, b.x0+30); x += 7 {
		if t.tryText(class, small, start, x, y, text) {
			return
		}
	}
	t.tryText(class, small, end, b.x0-4, y, text)
}

func (t *timeline) drawSpan(l *Lane, s Span, y float64) {
	mid := y + (barTop+barBottom)/2
	waited := s.Until
	if s.Held {
		waited = s.Got
	}
	if b := t.span(s.Asked, waited, mid-2.5, mid+2.5); waited-s.Asked > 0 {
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
			if from, to := math.Max(o.From, s.Got), math.Min(o.To, s.Until); (o.Older == l.Client || o.Newer == l.Client) && from < to {
				t.rect("overlap", t.span(from, to, y+barTop, y+barBottom), 2)
			}
		}
	})
	t.solid = append(t.solid, b)
}

// labelSpan writes the token into the bar, where nothing lies over it, and what ended the hold behind it.
func (t *timeline) labelSpan(l *Lane, s Span, y float64) {
	b, inside := t.span(s.Asked, s.Until, y+barTop, y+barBottom), false
	if s.Held {
		b = t.span(s.Got, s.Until, y+barTop, y+barBottom)
		over := slices.Clone(l.Stopped)
		for _, o := range t.run.Overlaps {
			over = append(over, Band{From: o.From, To: o.To})
		}
		text := t.token(s.Token)
		from, to := t.bare(s.Got, s.Until, over)
		if s.Token != 0 && to-from >= strong.width(text)+8 && t.freeOfTexts(boxOf(strong, start, from+5, y+barBottom-4.5, text)) {
			t.text("on-hold", strong, start, from+5, y+barBottom-4.5, text)
			inside = true
		}
	}
	ending := s.Ending
	if ending == "killed" {
		ending = ""
	}
	if s.Held && b.x1-b.x0 < 10 { // it could be overlooked
		ending = strings.TrimSuffix("held for "+millis(s.Until-s.Got)+"; "+ending, "; ")
		if t.tryAround("haloed soft", ending, b.x0, b.x1, y+barBottom-4.5) {
			ending = ""
		}
	}
	t.tryText("haloed soft", small, start, b.x1+5, y+barBottom-4.5, ending)
	if name := "token " + t.token(s.Token); s.Held && s.Token != 0 && !inside {
		below := y + stripTop + 12
		t.tryAlong("haloed soft", name, b, below)
	}
}

// bare is the longest part between two times, in coordinates, over which none of the bands lies.
func (t *timeline) bare(from, to float64, bands []Band) (x0, x1 float64) {
	slices.SortFunc(bands, func(a, b Band) int { return cmp.Compare(a.From, b.From) })
	at := from
	for _, b := range append(bands, Band{From: to, To: to}) {
		if upTo := math.Min(b.From, to); upTo-at > 0 && t.x.at(upTo)-t.x.at(at) > x1-x0 {
			x0, x1 = t.x.at(at), t.x.at(upTo)
		}
		at = math.Max(at, b.To)
	}
	return x0, x1
}

func (t *timeline) freeOfTexts(b box) bool {
	return !slices.ContainsFunc(t.labels, func(l label) bool { return l.meets(b) })
}

// drawWrites draws a tick for each write; where they are too many to tell apart, for those first that say more.
func (t *timeline) drawWrites(l *Lane, y float64) {
	weight := func(w Write) int { return map[bool]int{true: 2}[w.Refused] + map[bool]int{true: 1}[w.Late] }
	writes := slices.Clone(l.Writes)
	slices.SortStableFunc(writes, func(a, b Write) int { return cmp.Compare(weight(b), weight(a)) })
	var taken []box
	for _, w := range writes {
		x, top := t.x.at(w.At), y+barBottom+1.5
		b := box{x - 2.5, top, x + 2.5, y + laneHeight - 3}
		if slices.ContainsFunc(taken, b.meets) {
			continue
		}
		taken = append(taken, b)
		what, class := "wrote", "write"
		switch {
		case w.Refused:
			what, class = "tries to write and is refused", "write refused"
		case w.Late:
			what, class = "writes after a newer holder did", "write late"
		}
		t.titled(fmt.Sprintf("%s %s at %s", l.Client, what, axisSeconds(w.At)), func() {
			t.line(class, x, top, x, top+8)
			switch {
			case w.Refused:
				t.cross(class, x, top+12, 3.2)
			case w.Late:
				t.path(class+" mark", fmt.Sprintf("M%s %sl4 -7h-8z", number(x), number(top+15)))
			default:
				t.circle(class+" mark", x, top+9.5, 2.4)
			}
		})
		t.solid = append(t.solid, box{x - 4, top, x + 4, top + 16})
	}
}
