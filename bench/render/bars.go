package render

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/lockport/lockport/bench/result"
)

// pictured are the scenarios that have a place in a family's picture.
var pictured = []string{"cycle", "own-64", "contend-64", "contend-4x16", "handoff-other", "handoff-same", "waiters-1000", "takeover"}

// Sizes of a picture, in pixels.
const (
	width, labels, figures = 760.0, 190.0, 90.0
	row, head, gap         = 22.0, 30.0, 14.0
)

// style is for a white page and for a black one.
const style = `<style>
text{font:13px system-ui,sans-serif;fill:#1f2328}.head{font-weight:600}.note{fill:#59636e;font-size:12px}
.ours,.variant{fill:#0969da}.variant{opacity:.6}.theirs{fill:#9a6700}.floor{fill:#818b98}.spread{stroke:#1f2328}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.note{fill:#9198a1}.ours,.variant{fill:#4493f8}.theirs{fill:#d29922}.floor{fill:#656c76}.spread{stroke:#f0f6fc}}
</style>
`

// Picture is a family's scenarios as bars in SVG, each with a logarithmic scale of its own; lines show what the turns gave at least and at most. Empty if
// there is nothing to show.
func Picture(r *result.Results, family string) string {
	var b strings.Builder
	y := 0.0
	for _, name := range pictured {
		for _, s := range r.Scenarios {
			if s.Family == family && s.Name == name {
				y = panel(&b, s, y)
			}
		}
	}
	if y == 0 {
		return ""
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n", width, y, html.EscapeString(family)) +
		style + b.String() + "</svg>\n"
}

// panel draws one scenario from y on, and returns where it ends.
func panel(b *strings.Builder, s result.Scenario, y float64) float64 {
	about := headline(s)
	var shown []result.Figure
	var rows []result.Row
	low, high := math.Inf(1), 0.0
	for _, r := range s.Rows {
		if f, ok := r.Figure(about); ok {
			shown, rows = append(shown, f), append(rows, r)
			if f.High > 0 {
				high = math.Max(high, f.High)
			}
			if f.Low > 0 {
				low = math.Min(low, f.Low)
			}
		}
	}
	if high == 0 {
		return y
	}
	// The smallest bar is to be seen, and is not to look like nothing.
	low /= 2
	at := func(v float64) float64 {
		if v <= low {
			return labels
		}
		return labels + (width-labels-figures)*math.Log(v/low)/math.Log(high/low)
	}
	f := shown[0]
	fmt.Fprintf(b, `<text class="head" x="0" y="%.0f">%s</text>`, y+18, html.EscapeString(s.Title))
	fmt.Fprintf(b, `<text class="note" x="%.0f" y="%.0f" text-anchor="end">%s, %s is better; logarithmic</text>`+"\n",
		width, y+18, html.EscapeString(f.Name+" "+f.Unit), f.Best)
	y += head
	for i, f := range shown {
		middle := y + row/2
		fmt.Fprintf(b, `<text x="0" y="%.1f">%s</text>`, middle+4, html.EscapeString(rows[i].Library))
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="12" rx="1.5"/>`, rows[i].Kind, labels, middle-6, math.Max(1.5, at(f.Median)-labels))
		if f.High > f.Low {
			fmt.Fprintf(b, `<line class="spread" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, at(f.Low), at(f.High), middle, middle)
		}
		fmt.Fprintf(b, `<text x="%.0f" y="%.1f" text-anchor="end">%s</text>`+"\n", width, middle+4, Number(f.Median))
		y += row
	}
	return y + gap
}
