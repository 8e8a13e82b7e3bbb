package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// series is how a subject is drawn in every chart: a colour and a dash pattern of its own.
type series struct {
	name, title string
	index       int
}

// known are the subjects with colours of their own; those of a user have the ones that are left, in turn.
var known = []string{Article, "file", "redis", "redlock", "etcd", "zookeeper", "postgres", "mysql"}

// seriesOf is that of the subject called name.
func (r *Report) seriesOf(name string) series {
	s := series{name: name, title: r.title(name), index: slices.Index(known, name)}
	if s.index < 0 {
		s.index = max(0, slices.IndexFunc(r.Subjects, func(s Subject) bool { return s.Name == name })) % len(known)
	}
	return s
}

// title is what people call the subject.
func (r *Report) title(name string) string {
	for _, s := range r.Subjects {
		if s.Name == name && s.Title != "" {
			return s.Title
		}
	}
	return name
}

func (s series) class(kind string) string { return fmt.Sprintf("%s s%d", kind, s.index) }
func (s series) dashed(kind string) string {
	return fmt.Sprintf("%s s%d d%d", kind, s.index, s.index)
}

// sample draws a piece of the series' line.
func (c *canvas) sample(s series, x, y, length float64) {
	c.line(s.dashed("curve"), x, y, x+length, y)
}

// legend writes names with pieces of their lines below top, as many to a row as there is room for, and returns where that ends.
func (c *canvas) legend(all []series, top float64) float64 {
	const length, gap = 26.0, 16.0
	x, y := 4.0, top+16
	for _, s := range all {
		title := small.fit(s.title, c.w-length-16)
		w := length + 5 + small.width(title)
		if x > 4 && x+w > c.w-4 {
			x, y = 4, y+18
		}
		c.sample(s, x, y-4, length)
		c.text("", small, start, x+length+5, y, title)
		x += w + gap
	}
	return y + 8
}

// ticksBelow draws an axis with its ticks and what it measures. Where labels would touch, some are left out.
func (c *canvas) ticksBelow(s scale, ticks []float64, top, bottom float64, name func(float64) string, title string) float64 {
	c.line("axis", s.from, bottom, s.to, bottom)
	for _, tick := range ticks {
		x := s.at(tick)
		c.line("grid", x, top, x, bottom)
		text := name(tick)
		at := math.Min(math.Max(x, small.width(text)/2+2), c.w-small.width(text)/2-2)
		if b := boxOf(small, middle, at, bottom+18, text); c.free(box{b.x0 - 2, b.y0, b.x1 + 2, b.y1}) {
			c.text("soft", small, middle, at, bottom+18, text)
		}
	}
	if title == "" {
		return bottom + 24
	}
	at, lines := (s.from+s.to)/2, small.wrap(title, s.to-s.from, 1)
	if small.width(title) > s.to-s.from {
		at, lines = c.w/2, small.wrap(title, c.w-8, 3)
	}
	y := bottom + 34
	for _, line := range lines {
		c.text("soft", small, middle, at, y, line)
		y += small.size * leading
	}
	return y - small.size*leading + 7
}

// spreadOut moves coordinates apart so that two neighbours are at least gap from each other, within low and high, and returns them in the same
// order; they must be in order.
func spreadOut(at []float64, gap, low, high float64) []float64 {
	out := slices.Clone(at)
	if len(out) > 1 {
		gap = math.Min(gap, (high-low)/float64(len(out)-1))
	}
	for i := range out {
		out[i] = math.Max(out[i], low)
		if i > 0 {
			out[i] = math.Max(out[i], out[i-1]+gap)
		}
	}
	limit := high
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = math.Min(out[i], limit)
		limit = out[i] - gap
	}
	return out
}

// sentence joins figures for who cannot see a chart.
func sentence(figures []string) string { return strings.Join(figures, "; ") + "." }
