package report

import (
	"fmt"
	"math"
)

// bar is a row of a bar chart.
type bar struct {
	series
	about    string // what else is to be said of the name: "64 waiters"
	value    float64
	from, to float64 // the whisker, none where to is 0
	first    string  // the figure
	more     string  // what is said beside it
	alone    bool    // there is one sample, and nothing to spread
	hollow   bool    // drawn as an outline: what is shown for comparison
}

// drawBars draws rows: a name, a bar on one scale for all, and its figures; on a phone the name and the figures stand above the bar.
func drawBars(all []bar, width float64, log bool, name func(float64) string, title string) *canvas {
	c := &canvas{w: width, h: 1e6}
	low, high := math.Inf(1), 0.0
	names, figures := []string{}, []string{}
	for _, b := range all {
		high = math.Max(high, math.Max(finite(b.value), finite(b.to)))
		if b.value > 0 {
			low = math.Min(low, finite(b.value))
		}
		names, figures = append(names, b.title), append(figures, b.first)
	}
	narrow := width < 500
	left, right := 4.0, width-14
	if !narrow {
		left = math.Min(math.Max(strong.widest(names...), small.widest(abouts(all)...)), width*0.4) + 16
		right = width - math.Min(math.Max(strong.widest(figures...), small.widest(mores(all)...)), width*0.32) - 24
	}
	var x scale
	var ticks []float64
	if log {
		x, ticks = logarithmic(low, high, left, right)
	} else {
		x, ticks = linear(high, left, right, max(2, int((right-left)/90)))
	}
	row := 34.0
	if narrow {
		row = 50
	}
	bottom := 4 + row*float64(len(all))
	below := c.ticksBelow(x, ticks, 4, bottom, name, title)
	for i, b := range all {
		c.drawBar(b, x, 4+row*float64(i), narrow)
	}
	c.h = math.Ceil(below + 2)
	return c
}

func (c *canvas) drawBar(b bar, x scale, top float64, narrow bool) {
	mid := top + 17
	if narrow {
		mid = top + 38
		figure := strong.fit(b.first, c.w*0.5)
		c.text("haloed", strong, start, 4, top+13, strong.fit(b.title, c.w-strong.width(figure)-20))
		c.text("haloed", strong, end, c.w-4, top+13, figure)
		more := small.fit(b.more, math.Max(c.w*0.62, c.w-small.width(b.about)-24))
		c.text("haloed soft", small, start, 4, top+27, small.fit(b.about, c.w-small.width(more)-20))
		c.text("haloed soft", small, end, c.w-4, top+27, more)
	} else {
		c.pair(start, 4, mid, x.from-16, b.title, b.about)
		c.pair(end, c.w-4, mid, c.w-x.to-16, b.first, b.more)
	}
	v := x.at(b.value)
	c.titled(b.title+" "+b.about+": "+b.first, func() {
		class := b.class("bar")
		if b.hollow {
			class = b.class("hollow")
		}
		c.rect(class, box{x.from, mid - 6, math.Max(v, x.from+1.5), mid + 6}, 1.5)
		if b.to > 0 && !b.alone {
			from, to := x.at(b.from), x.at(b.to)
			c.path("whisker", fmt.Sprintf("M%s %sV%sM%s %sH%sM%s %sV%s", number(from), number(mid-4), number(mid+4), number(from), number(mid),
				number(to), number(to), number(mid-4), number(mid+4)))
		}
	})
}

// pair writes a text and what is said beside it in two lines around mid, or the text alone in the middle.
func (c *canvas) pair(a anchor, x, mid, limit float64, first, more string) {
	if more == "" {
		c.text("", strong, a, x, mid+4, strong.fit(first, limit))
		return
	}
	c.text("", strong, a, x, mid-3, strong.fit(first, limit))
	c.text("soft", small, a, x, mid+12, small.fit(more, limit))
}

func abouts(all []bar) (texts []string) {
	for _, b := range all {
		texts = append(texts, b.about)
	}
	return texts
}

func mores(all []bar) (texts []string) {
	for _, b := range all {
		texts = append(texts, b.more)
	}
	return texts
}
