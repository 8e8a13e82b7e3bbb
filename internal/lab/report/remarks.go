package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// remark is a text about an instant, above the lanes of a timeline.
type remark struct {
	at    float64 // milliseconds
	text  string
	fault bool
	when  string // at, for people

	x     float64 // where at is
	left  bool    // the text ends at x rather than begins
	lines []string
	base  float64 // how far its lower side is above the lanes
	box
}

// The fonts of timelines.
var (
	small  = font{size: 11}
	strong = font{size: 12, bold: true}
)

const (
	remarkGap = 5  // between a leader line and its text
	remarkTop = 72 // how high remarks may be stacked
	maxKeys   = 14 // how many remarks can have numbers
)

// remarks are what is to be said above the lanes, in order: the faults where they begin, and the marks. What is said several times is said once.
func remarks(r *Run, s scale) []*remark {
	var all []*remark
	type said struct {
		text  string
		fault bool
	}
	times := make(map[said]int)
	add := func(at float64, text string, fault bool) {
		key := said{text, fault}
		if times[key]++; text != "" && times[key] == 1 {
			all = append(all, &remark{at: at, text: text, fault: fault, when: axisTime(at, s), x: s.at(at)})
		}
	}
	for _, b := range r.Faults {
		add(b.From, b.What, true)
	}
	for _, m := range r.Marks {
		add(m.At, m.What, false)
	}
	for _, m := range all {
		if n := times[said{m.text, m.fault}]; n > 1 {
			m.text = fmt.Sprintf("%s (%d times)", m.text, n)
		}
	}
	slices.SortStableFunc(all, func(a, b *remark) int { return cmp.Compare(a.x, b.x) })
	return all
}

// stack finds places for the texts so that none covers another, nor the line that leads down from another: those of the left part begin at their
// lines, and cover others to their right from above; those of the right part end at theirs. It tries every part for a beginning, and reports the
// height that it needs, or that there is no way.
func stack(all []*remark, width, limit float64, lines int) (float64, bool) {
	for split := len(all); split >= 0; split-- {
		for i, m := range all {
			m.left, m.base = i >= split, 0
			m.lines = small.wrap(m.text, limit, lines)
		}
		for i := split - 1; i >= 0; i-- {
			all[i].lift(all[i+1 : split])
		}
		for i := split; i < len(all); i++ {
			all[i].lift(all[split:i])
		}
		if height, ok := clearOf(all, width); ok {
			return height, true
		}
	}
	return 0, false
}

// lift puts m above those of the others which it would cover, and finds its box, with the lanes at 0.
func (m *remark) lift(others []*remark) {
	m.place()
	for _, o := range others {
		if o.x0 < m.x1+remarkGap && m.x0 < o.x1+remarkGap {
			m.base = math.Max(m.base, o.base+o.y1-o.y0)
		}
	}
	m.place()
}

func (m *remark) place() {
	w := small.widest(m.lines...)
	m.x0, m.x1 = m.x+remarkGap, m.x+remarkGap+w
	if m.left {
		m.x0, m.x1 = m.x-remarkGap-w, m.x-remarkGap
	}
	m.y1 = -m.base
	m.y0 = m.y1 - float64(len(m.lines))*small.size*leading - 2
}

// clearOf reports that nothing covers anything, and how high all is.
func clearOf(all []*remark, width float64) (height float64, ok bool) {
	for i, m := range all {
		height = math.Max(height, -m.y0)
		if m.x0 < 2 || m.x1 > width-2 || height > remarkTop {
			return 0, false
		}
		for j, o := range all {
			crossed := m.x0-2 < o.x && o.x < m.x1+2 && o.base > m.base // its line comes through m
			if i != j && (m.meets(o.box) || crossed) {
				return 0, false
			}
		}
	}
	return height, true
}

// drawRemarks writes them above top, which it returns, and returns those that are left to be told in a key below, with their numbers.
func (c *canvas) drawRemarks(all []*remark) (top float64, leaders func(bottom float64), keys []string) {
	for _, share := range []float64{0.5, 0.36, 0.25} {
		if height, ok := stack(all, c.w, c.w*share, 3); ok {
			return c.stackedRemarks(all, height)
		}
	}
	return c.numberedRemarks(all)
}

func (c *canvas) stackedRemarks(all []*remark, height float64) (top float64, leaders func(float64), keys []string) {
	top = height + 8
	leaders = func(bottom float64) {
		for _, m := range all {
			c.line("leader"+m.class(), m.x, top+m.y0+4, m.x, bottom)
		}
	}
	for _, m := range all {
		a, x := start, m.x0
		if m.left {
			a, x = end, m.x1
		}
		for i, text := range m.lines {
			c.text("remark"+m.class(), small, a, x, top+m.y0+small.size*(ascent+float64(i)*leading), text)
		}
	}
	return top, leaders, nil
}

func (c *canvas) numberedRemarks(all []*remark) (top float64, leaders func(float64), keys []string) {
	const r, apart = 8.5, 19.0
	shown := all[:min(len(all), maxKeys)]
	x := make([]float64, len(shown))
	for i, m := range shown {
		x[i] = math.Max(m.x, r+2)
		if i > 0 {
			x[i] = math.Max(x[i], x[i-1]+apart)
		}
	}
	for i, limit := len(x)-1, c.w-r-2; i >= 0; i-- {
		x[i] = math.Min(x[i], limit)
		limit = x[i] - apart
	}
	top = 2*r + 14
	for i, m := range shown {
		c.circle("key"+m.class(), x[i], r+2, r)
		c.text("keyed", font{size: 11, bold: true}, middle, x[i], r+6, fmt.Sprint(i+1))
		keys = append(keys, fmt.Sprintf("%d at %s: %s", i+1, m.when, m.text))
	}
	if more := len(all) - len(shown); more > 0 {
		keys = append(keys, fmt.Sprintf("and %s more", count(more)))
	}
	return top, func(bottom float64) {
		for i, m := range shown {
			c.polyline("leader"+m.class(), [][2]float64{{x[i], 2*r + 2}, {m.x, top - 4}, {m.x, bottom}})
		}
	}, keys
}

func (m *remark) class() string {
	if m.fault {
		return " fault"
	}
	return ""
}
