package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The fonts of drawings.
var (
	small  = font{size: 11}
	strong = font{size: 12, bold: true}
)

const (
	remarkGap = 5  // between a leader line and its text
	remarkTop = 72 // how high remarks may be stacked
	maxKeys   = 14 // how many remarks can have numbers
)

// remark is a text about an instant, above the lanes of a timeline.
type remark struct {
	x           float64
	text, class string // the class is that of faults, or empty
	when        string // the instant, for people
	lines       []string
	box         // of the lines, with the lanes at 0
}

// remarks are what is said above the lanes, in order: the faults where they begin, and the marks. What happens several times is said once.
func remarks(r *Run, s scale) (all []*remark) {
	times := make(map[string]int)
	add := func(at float64, text, class string) {
		if times[class+text]++; text != "" && times[class+text] == 1 {
			all = append(all, &remark{x: s.at(at), text: text, class: class, when: axisTime(at, s)})
		}
	}
	for _, b := range r.Faults {
		add(b.From, b.What, " fault")
	}
	for _, m := range r.Marks {
		add(m.At, m.What, "")
	}
	for _, m := range all {
		if n := times[m.class+m.text]; n > 1 {
			m.text = fmt.Sprintf("%s (%d times)", m.text, n)
		}
	}
	slices.SortStableFunc(all, func(a, b *remark) int { return cmp.Compare(a.x, b.x) })
	return all
}

// stack finds places for the texts from the right to the left. Each stands beside the line that leads down from it, above all texts that it would cover. It
// reports how high that is, or that a text would cross a line, or be too high.
func stack(all []*remark, width, limit float64) (height float64, ok bool) {
	for i, m := range slices.Backward(all) {
		m.lines = small.wrap(m.text, limit, 3)
		w := small.widest(m.lines...)
		m.box = box{x0: m.x + remarkGap, x1: m.x + remarkGap + w}
		if m.x1 > width-2 {
			m.x0, m.x1 = m.x-remarkGap-w, m.x-remarkGap
		}
		tall := float64(len(m.lines))*small.size*leading + 2
		for _, o := range all[i+1:] {
			if o.x0 < m.x1+remarkGap && m.x0 < o.x1+remarkGap {
				m.y1 = min(m.y1, o.y0)
			}
		}
		m.y0 = m.y1 - tall
		height = max(height, -m.y0)
	}
	for i, m := range all {
		for j, o := range all {
			if i != j && m.x0-2 < o.x && o.x < m.x1+2 && o.y0 < m.y0 {
				return 0, false
			}
		}
		if m.x0 < 2 {
			return 0, false
		}
	}
	return height, height <= remarkTop
}

// drawRemarks writes the remarks above top, which it returns with what draws the lines that lead down. Where there is no room they get numbers, which
// the keys explain.
func (c *canvas) drawRemarks(all []*remark) (top float64, leaders func(bottom float64), keys []string) {
	for _, share := range []float64{0.5, 0.36, 0.25} {
		height, ok := stack(all, c.w, c.w*share)
		if !ok {
			continue
		}
		top = height + 8
		for _, m := range all {
			for i, text := range m.lines {
				a, x := start, m.x0
				if m.x0 < m.x {
					a, x = end, m.x1
				}
				c.text("remark"+m.class, small, a, x, top+m.y0+small.size*(ascent+float64(i)*leading), text)
			}
		}
		return top, func(bottom float64) {
			for _, m := range all {
				c.line("leader"+m.class, m.x, top+m.y0+4, m.x, bottom)
			}
		}, nil
	}
	const r, apart = 8.5, 19.0
	shown := all[:min(len(all), maxKeys)]
	x := make([]float64, len(shown))
	for i, m := range shown {
		x[i] = max(m.x, r+2)
		if i > 0 {
			x[i] = max(x[i], x[i-1]+apart)
		}
	}
	for i, limit := len(x)-1, c.w-r-2; i >= 0; i-- {
		x[i] = min(x[i], limit)
		limit = x[i] - apart
	}
	top = 2*r + 14
	for i, m := range shown {
		c.circle("key"+m.class, x[i], r+2, r)
		c.text("keyed", font{size: 11, bold: true}, middle, x[i], r+6, fmt.Sprint(i+1))
		keys = append(keys, fmt.Sprintf("%d at %s: %s", i+1, m.when, m.text))
	}
	if more := len(all) - len(shown); more > 0 {
		keys = append(keys, fmt.Sprintf("and %s more", count(more)))
	}
	return top, func(bottom float64) {
		for i, m := range shown {
			c.path("leader"+m.class, fmt.Sprintf("M%s %sL%s %sV%s", number(x[i]), number(2*r+2), number(m.x), number(top-4), number(bottom)))
		}
	}, keys
}

// tokenNames makes short names of a run's tokens: of long ones that begin alike, the digits that differ, and at least the last four: "…4817".
func tokenNames(r *Run) func(Token) string {
	var all []string
	add := func(t Token) {
		if t != 0 {
			all = append(all, fmt.Sprint(t))
		}
	}
	for _, l := range r.Lanes {
		for _, s := range l.Spans {
			add(s.Token)
		}
	}
	for _, o := range r.Overlaps {
		add(o.Tokens[0])
		add(o.Tokens[1])
	}
	common := 0
	if len(all) > 0 {
		common = max(0, len(all[0])-4)
	}
	for _, t := range all {
		if len(t) != len(all[0]) {
			common = 0 // then a part does not say which is the greater one
		}
		for !strings.HasPrefix(t, all[0][:common]) {
			common--
		}
	}
	return func(token Token) string {
		text := fmt.Sprint(token)
		switch {
		case token == 0:
			return "no token"
		case common > 2 && len(text) > common:
			return "…" + text[common:]
		}
		return text
	}
}
