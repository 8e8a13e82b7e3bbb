package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Bar is a row of a [Chart].
type Bar struct {
	Title, About string  // what is measured, and what else is said of it: "64 waiters"
	Value        float64 // in the unit of the chart
	From, To     float64 // a whisker over the bar; none where they are equal
	Figure, More string  // the value for people, and what is said beside it
	Series       int     // its colour, 0 to 7
	Hollow       bool    // drawn as an outline, for what is shown as a comparison
}

// Chart is a bar chart.
type Chart struct {
	Name, Title string               // of its file, without the ending, and what it shows
	Bars        []Bar                // from the top
	Log         bool                 // the scale is logarithmic
	Tick        func(float64) string // a value on the axis, for people
	Axis        string               // what the axis shows
}

// SVG is the chart as a file that stands alone. It follows the reader's choice of light or dark.
func (ch *Chart) SVG() []byte {
	p := ch.picture()
	return p.wide.standalone(p.Title, p.desc)
}

// picture draws the chart. Its figures are told to those who cannot see it.
func (ch *Chart) picture() *picture {
	var figures []string
	for _, b := range ch.Bars {
		figures = append(figures, strings.TrimSpace(strings.Join([]string{b.Title, b.About, b.Figure, b.More}, " ")))
	}
	return draw(ch.Name, ch.Title, strings.Join(figures, "; ")+".", ch.draw)
}

// draw draws a name, a bar and its figures in each row; on a phone the name and the figures stand above the bar.
func (ch *Chart) draw(width float64) *canvas {
	c := &canvas{w: width, h: 1e6}
	low, high, names, figures := math.Inf(1), 0.0, 0.0, 0.0
	for _, b := range ch.Bars {
		high = max(high, finite(b.Value), finite(b.To))
		if v := finite(b.Value); v > 0 {
			low = min(low, v)
		}
		names = max(names, strong.width(b.Title), small.width(b.About))
		figures = max(figures, strong.width(b.Figure), small.width(b.More))
	}
	narrow, row := width < 500, 34.0
	left, right := min(names, width*0.4)+16, width-min(figures, width*0.32)-24
	if narrow {
		left, right, row = 4, width-14, 50
	}
	x, ticks := linear(high, left, right, max(2, int((right-left)/90)))
	if ch.Log {
		x, ticks = logarithmic(low, high, left, right)
	}
	bottom := 4 + row*float64(len(ch.Bars))
	below := c.axis(x, ticks, bottom, ch.Tick, ch.Axis)
	for i, b := range ch.Bars {
		c.bar(b, x, 4+row*float64(i), narrow)
	}
	c.h = math.Ceil(below + 2)
	return c
}

// axis draws ticks, where their labels do not touch, and what the axis shows, and returns where that ends.
func (c *canvas) axis(s scale, ticks []float64, bottom float64, name func(float64) string, title string) float64 {
	c.line("axis", s.from, bottom, s.to, bottom)
	for _, tick := range ticks {
		x, text := s.at(tick), name(tick)
		c.line("grid", x, 4, x, bottom)
		half := small.width(text)/2 + 2
		c.tryText("soft", small, middle, min(max(x, half), c.w-half), bottom+18, text)
	}
	y := bottom + 34
	for _, line := range small.wrap(title, c.w-8, 3) {
		half := small.width(line)/2 + 2
		c.text("soft", small, middle, min(max((s.from+s.to)/2, half), c.w-half), y, line)
		y += small.size * leading
	}
	return y - small.size*leading + 7
}

func (c *canvas) bar(b Bar, x scale, top float64, narrow bool) {
	mid := top + 17
	if narrow {
		mid = top + 38
		figure, more := strong.fit(b.Figure, c.w*0.5), small.fit(b.More, c.w*0.62)
		c.text("haloed", strong, start, 4, top+13, strong.fit(b.Title, c.w-strong.width(figure)-20))
		c.text("haloed", strong, end, c.w-4, top+13, figure)
		c.text("haloed soft", small, start, 4, top+27, small.fit(b.About, c.w-small.width(more)-20))
		c.text("haloed soft", small, end, c.w-4, top+27, more)
	} else {
		c.pair(start, 4, mid, x.from-16, b.Title, b.About)
		c.pair(end, c.w-4, mid, c.w-x.to-16, b.Figure, b.More)
	}
	c.titled(b.Title+" "+b.About+": "+b.Figure, func() {
		class := fmt.Sprintf("bar s%d", b.Series)
		if b.Hollow {
			class = fmt.Sprintf("hollow s%d", b.Series)
		}
		c.rect(class, box{x.from, mid - 6, max(x.at(b.Value), x.from+1.5), mid + 6}, 1.5)
		if b.From != b.To {
			from, to := x.at(b.From), number(x.at(b.To))
			c.path("whisker", fmt.Sprintf("M%s %sv8m0 -4H%sm0 -4v8", number(from), number(mid-4), to))
		}
	})
}

// pair writes a text and what is said of it in two lines around mid, or the text alone in the middle.
func (c *canvas) pair(a anchor, x, mid, limit float64, first, more string) {
	up := map[bool]float64{true: 4, false: -3}[more == ""]
	c.text("", strong, a, x, mid+up, strong.fit(first, limit))
	c.text("soft", small, a, x, mid+12, small.fit(more, limit))
}

// seriesOf is the colour of a subject; those of a user have colours in turn.
func (r *Report) seriesOf(name string) int {
	known := []string{Article, "file", "redis", "redlock", "etcd", "zookeeper", "postgres", "mysql"}
	if i := slices.Index(known, name); i >= 0 {
		return i
	}
	return max(0, slices.IndexFunc(r.Subjects, func(s Subject) bool { return s.Name == name })) % len(known)
}
