package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	laneHeight = 42.0
	barTop     = 5.0 // of a hold, within its lane
	barHeight  = 17.0
	below      = 23.5 // a lane's line, from which writes hang down
	shortest   = 4.0  // drawn width of an instant
)

// timeline draws who held the lock when: the faults, a lane for each client, and numbered events, which are explained below.
type timeline struct {
	*drawing
	run *Run
	x   scale
}

// Timeline shows who held the lock when.
func (e *entry) Timeline() *drawing {
	title := strings.TrimSpace(fmt.Sprintf("Who held the lock when: %s on %s %s", e.Hazard, e.Who, e.Variant))
	t := &timeline{drawing: &drawing{Name: e.ID(), Title: title, Desc: e.Observed, W: 960}, run: &e.Run}
	t.draw()
	return t.drawing
}

func (t *timeline) draw() {
	lanes := slices.DeleteFunc(slices.Clone(t.run.Lanes), func(l Lane) bool { // without clients that did nothing with this lock
		return len(l.Spans)+len(l.Stopped)+len(l.Cut)+len(l.Writes) == 0 && l.Killed == 0
	})
	t.x = scale{max(1, t.run.Took), 16 + float64(len("both"))*bold, t.W - 20} // a client's name is one letter
	events, top := t.events(), 4.0
	if len(events) > 0 {
		top = 31
	}
	bottom := top + laneHeight*float64(max(1, len(lanes)))
	for _, f := range t.run.Faults {
		t.band("fault-band", f, top, bottom-top, "the fault, "+between(f.From, f.To))
	}
	t.number(events, top, bottom)
	for i := range lanes {
		t.lane(&lanes[i], top+laneHeight*float64(i))
	}
	t.line("rule", 0, bottom, t.W, 0)
	if len(t.run.Overlaps) > 0 {
		t.text("danger strong", 4, bottom+14.5, "both")
		for _, o := range t.run.Overlaps {
			t.band("overlap", Band{From: o.From, To: o.To}, bottom+5, 11, t.overlap(o))
		}
		bottom += 21
	}
	t.axis(bottom)
	t.H = t.explain(events, bottom+34) - lining + 6
}

// event is what happened at an instant.
type event struct {
	at          float64
	text, class string
}

// events are harm to clients' networks, overlaps and marks, in order. Repeated events appear once.
func (t *timeline) events() (all []event) {
	times := make(map[string]int)
	add := func(at float64, text, class string) {
		if times[text]++; times[text] == 1 {
			all = append(all, event{at, text, class})
		}
	}
	for _, l := range t.run.Lanes {
		for _, b := range l.Cut {
			add(b.From, l.Client+" is "+cmp.Or(b.What, "cut"), "fault")
		}
	}
	for _, o := range t.run.Overlaps {
		add(o.From, t.overlap(o), "danger")
	}
	for _, m := range t.run.Marks {
		add(m.At, m.What, "")
	}
	for i, e := range all {
		if n := times[e.text]; n > 1 {
			all[i].text += fmt.Sprintf(" (%d times)", n)
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

// number draws the events' numbers side by side, and a line from each through the lanes.
func (t *timeline) number(events []event, top, bottom float64) {
	const apart, edge = 19.0, 10.5
	x := edge - apart
	for i, e := range events {
		at := t.x.at(e.at)
		x = min(max(x+apart, at), t.W-edge-apart*float64(len(events)-1-i))
		t.line("leader "+e.class, x, 19, at-x, top-4-19)
		t.line("leader "+e.class, at, top-4, 0, bottom-top+4)
		t.use("m-key", "key "+e.class, x, edge, 0, e.text)
		t.text("keyed strong middle", x, 14.5, strconv.Itoa(i+1))
	}
}

// explain lists the numbered events with their times.
func (t *timeline) explain(events []event, y float64) float64 {
	for i, e := range events {
		text := fmt.Sprintf("%d at %s: %s", i+1, moment(e.at), e.text)
		y = t.lines(e.class, 4, y, t.W-8, 2, text)
		t.Desc += " " + text + "."
	}
	return y
}

// band draws a period, wide enough to be seen.
func (t *timeline) band(class string, b Band, y, height float64, title string) (from, to float64) {
	from, to = t.x.at(b.From), t.x.at(b.To)
	if to-from < shortest {
		from = min(from, t.x.to-shortest)
		to = from + shortest
	}
	t.rect(class, from, y, to-from, height, title)
	return from, to
}

func (t *timeline) lane(l *Lane, y float64) {
	t.line("rule", 0, y, t.W, 0)
	t.text("strong", 4, y+18, cut(l.Client, int((t.x.from-12)/bold)))
	alive, mid := t.x.to, y+below
	if l.Killed > 0 {
		alive = t.x.at(l.Killed)
	}
	t.line("alive", t.x.from, mid, alive-t.x.from, 0)
	for _, b := range l.Stopped {
		t.band("stopped", b, y+2, laneHeight-4, l.Client+": stopped "+b.What+", "+between(b.From, b.To))
	}
	for _, b := range l.Cut {
		t.band("cut", b, y+2, laneHeight-4, l.Client+": cut "+b.What+", "+between(b.From, b.To))
	}
	for i, s := range l.Spans {
		room := t.W
		if i+1 < len(l.Spans) {
			room = t.x.at(l.Spans[i+1].Asked)
		}
		t.span(l, s, y, room)
	}
	if l.Killed > 0 {
		t.use("m-killed", "killed", alive, mid, 0, fmt.Sprintf("%s is killed at %s", l.Client, moment(l.Killed)))
	}
	for _, w := range l.Writes {
		name, what := "write", "writes"
		switch {
		case w.Refused:
			name, what = "refused", "tries to write and is refused"
		case w.Late:
			name, what = "late", "writes after a newer holder got the lock"
		}
		t.use("m-"+name, "write "+name, t.x.at(w.At), mid, 0, fmt.Sprintf("%s %s at %s", l.Client, what, moment(w.At)))
	}
}

// span draws how a client waited for the lock and held it. The token is in the bar or, if there is room, beside it with the ending.
func (t *timeline) span(l *Lane, s Span, y, room float64) {
	mid, waited := y+barTop+barHeight/2, s.Until
	if s.Held {
		waited = s.Got
	}
	end := t.x.at(waited)
	if waited > s.Asked {
		_, end = t.band("waiting", Band{From: s.Asked, To: waited}, mid-2.5, 5, fmt.Sprintf("%s waits, %s", l.Client, between(s.Asked, waited)))
	}
	said := []string{strings.TrimPrefix(s.Ending, "killed")}
	if !s.Held {
		t.use("m-gave-up", "gave-up", end, mid, 0, s.Ending)
	} else {
		var from float64
		from, end = t.band("hold", Band{From: s.Got, To: s.Until}, y+barTop, barHeight, t.hold(l.Client, s))
		over := func(class string, from, to float64) {
			if from, to = max(from, s.Got), min(to, s.Until); from < to {
				t.band(class, Band{From: from, To: to}, y+barTop, barHeight, t.hold(l.Client, s))
			}
		}
		for _, o := range t.run.Overlaps {
			if o.Older == l.Client || o.Newer == l.Client {
				over("overlap", o.From, o.To)
			}
		}
		for _, b := range l.Stopped {
			over("stopped over", b.From, b.To)
		}
		if end-from < 10 { // it could be overlooked
			said = slices.Insert(said, 0, "held for "+Millis(s.Until-s.Got))
		}
		if token := tokenName(s.Token); s.Token != "" && float64(len([]rune(token)))*bold+9 < end-from {
			t.text("on-hold strong", from+5, mid+4, token)
		} else if s.Token != "" {
			said = slices.Insert(said, 0, "token "+token)
		}
	}
	said = slices.DeleteFunc(said, func(text string) bool { return text == "" })
	for ; len(said) > 0; said = said[:len(said)-1] {
		if text := strings.Join(said, "; "); end+6+float64(len([]rune(text)))*small < room {
			t.text("haloed soft", end+6, mid+4, text)
			return
		}
	}
}

// hold describes a hold for its tooltip.
func (t *timeline) hold(client string, s Span) string {
	text := client + " holds the lock, " + between(s.Got, s.Until)
	if s.Token != "" {
		text += ", token " + s.Token
	}
	return strings.TrimSuffix(text+"; "+s.Ending, "; ")
}

func (t *timeline) overlap(o Overlap) string {
	return fmt.Sprintf("both %s (%s) and %s (%s) hold it, %s", o.Older, tokenName(o.Tokens[0]), o.Newer, tokenName(o.Tokens[1]), Millis(o.To-o.From))
}

func (t *timeline) axis(y float64) {
	t.line("axis", t.x.from, y, t.x.to-t.x.from, 0)
	for _, tick := range t.x.ticks(math.Floor((t.x.to - t.x.from) / 80)) {
		t.line("axis", t.x.at(tick), y, 0, 4)
		text := moment(tick)
		t.text("soft middle", min(t.x.at(tick), t.W-2-small*float64(len(text))/2), y+16, text)
	}
}

// moment formats a time since the beginning: "1.5 s".
func moment(ms float64) string {
	return strconv.FormatFloat(math.Round(ms)/1000, 'f', -1, 64) + " s"
}

// between formats a period: "0.5 to 1.25 s".
func between(from, to float64) string {
	return strings.TrimSuffix(moment(from), " s") + " to " + moment(to)
}

// tokenName shortens a token to its last digits, in which the tokens of one lock differ.
func tokenName(token string) string {
	const most = 6
	switch {
	case token == "0":
		return "no token"
	case len(token) > most:
		return "…" + token[len(token)-most:]
	}
	return token
}
