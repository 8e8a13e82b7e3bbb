package report

import (
	"fmt"
	"math"
)

// Chart is a bar chart of values on a logarithmic scale, as a file. Bars on a page are those of a [Table].
type Chart struct {
	Title, Axis string               // what it shows, and what its axis does
	Tick        func(float64) string // a value on the axis, for people
	Bars        []Bar                // from the top
}

// Bar is a row of a [Chart].
type Bar struct {
	Title, About string  // what is measured, and what else is said of it: "64 waiters"
	Value        float64 // above 0
	From, To     float64 // a whisker over the bar
	Figure       string  // the value for people
	Hollow       bool    // drawn as an outline, for what is shown as a comparison
}

// SVG is the chart as a file that stands alone. It follows the reader's choice of light or dark.
func (c *Chart) SVG() []byte {
	const left, right, height = 260.0, 860.0, 34.0
	d := &drawing{Title: c.Title, W: 960}
	low, high := math.Inf(1), math.Inf(-1)
	for _, b := range c.Bars {
		low, high = min(low, b.Value, b.From), max(high, b.Value, b.To)
	}
	low, high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	x := scale{max(1, high-low), left, right}
	bottom := 4 + height*float64(len(c.Bars))
	for e := low; e <= low+x.high; e++ {
		d.line("grid", x.at(e-low), 4, 0, bottom-4)
		d.text("soft middle", x.at(e-low), bottom+18, c.Tick(math.Pow(10, e)))
	}
	d.line("axis", left, bottom, right-left, 0)
	for i, b := range c.Bars {
		at := func(v float64) float64 { return x.at(math.Log10(v) - low) }
		y, class := 4+height*float64(i), "hold"
		if b.Hollow {
			class = "hollow"
		}
		d.text("strong", 4, y+14, cut(b.Title, 28))
		d.text("soft", 4, y+28, cut(b.About, 35))
		d.rect(class, left, y+11, max(1.5, at(b.Value)-left), 12, fmt.Sprintf("%s, %s: %s", b.Title, b.About, b.Figure))
		d.line("whisker", at(b.From), y+17, at(b.To)-at(b.From), 0)
		d.line("whisker", at(b.From), y+13, 0, 8)
		d.line("whisker", at(b.To), y+13, 0, 8)
		d.text("strong", right+20, y+21, b.Figure)
		d.Desc += fmt.Sprintf("%s, %s: %s. ", b.Title, b.About, b.Figure)
	}
	d.H = d.lines("soft middle", (left+right)/2, bottom+34, right-left, 3, c.Axis) - lining + 6
	return d.SVG()
}
