package render

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/stage"
)

// panels are what a family's picture shows: one figure of a scenario each.
var panels = []struct{ scenario, figure, title string }{
	{"cycle", "p50", "Take and release a name that nobody else wants"},
	{"own-64", "cycles", "64 goroutines take and release, each its own name"},
	{"contend-64", "hand-offs", "64 goroutines want one name: it changes hands"},
	{"contend-4x16", "hand-offs", "4 processes of 16 goroutines want one name: the same"},
	{"contend-4x16", "longest wait", "… and who waited longest"},
	{"handoff-other", "p50", "From a release to the grant of a waiter in another process"},
	{"handoff-same", "p50", "From a release to the grant of a waiter in the same process"},
	{"waiters-1000", "requests", "1,000 goroutines wait for a name that is held: what they ask the server"},
	{"held-10000", "requests", "10,000 locks are held: what keeps them"},
	{"takeover", "p50", "From the kill -9 of a holder (TTL 3 s) to the next grant"},
}

// Sizes of a picture, in pixels, and the ratio from which on a scale is logarithmic.
const (
	width, labels, figures = 820.0, 210.0, 84.0
	margin                 = 20.0
	row                    = 21.0
	farApart               = 20
)

// style is for a white page and for a black one.
const style = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}.title{font-size:19px;font-weight:600}.head{font-size:14px;font-weight:600}
.note{fill:#59636e;font-size:12px}.us{font-weight:600}.page{fill:#fff}.grid{stroke:#d1d9e0;stroke-width:1}.zero{stroke:#818b98;stroke-width:1}
rect.ours,circle.ours{fill:#0969da}rect.variant,circle.variant{fill:#80b7f0}rect.theirs,circle.theirs{fill:#bf8700}
rect.floor,circle.floor{fill:#d1d9e0;stroke:#818b98;stroke-width:1}line.ours{stroke:#0969da}line.variant{stroke:#80b7f0}line.theirs{stroke:#bf8700}line.floor{stroke:#818b98}
.stem{stroke-width:3;opacity:.45}.spread{stroke:#1f2328;stroke-width:1.2}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.note{fill:#9198a1}.page{fill:#0d1117}.grid{stroke:#2a313c}.zero{stroke:#656c76}
rect.ours,circle.ours{fill:#4493f8}rect.variant,circle.variant{fill:#275d9e}rect.theirs,circle.theirs{fill:#d29922}rect.floor,circle.floor{fill:#2a313c;stroke:#9198a1}
line.ours{stroke:#4493f8}line.variant{stroke:#275d9e}line.theirs{stroke:#d29922}line.floor{stroke:#9198a1}.spread{stroke:#f0f6fc}}
</style>
`

// Picture is a family's scenarios in SVG, with a scale for each: bars, or where figures are far apart dots on a logarithmic scale; thin lines are what the
// turns gave at least and at most. Empty if there is nothing to show.
func Picture(r *result.Results, family stage.Family) string {
	var b strings.Builder
	y := 84.0
	for _, p := range panels {
		if s, ok := r.Scenario(family.Name, p.scenario); ok {
			y = panel(&b, s, p.figure, p.title, y)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s">`+"\n",
		width, y, width, y, html.EscapeString(family.Title+": lockport beside others")) + style + fmt.Sprintf(`<rect class="page" width="%.0f" height="%.0f"/>`+"\n", width, y) +
		heading(r, family) + b.String() + "</svg>\n"
}

// heading is the title, what was measured, and what the colours mean.
func heading(r *result.Results, family stage.Family) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<text class="title" x="%.0f" y="32">%s</text>`, margin, html.EscapeString(family.Title))
	caption := fmt.Sprintf("medians (%d turns); thin lines: least and most", r.Turns)
	fmt.Fprintf(&b, `<text class="note" x="%.0f" y="32" text-anchor="end">%s</text>`+"\n", width-margin, caption)
	x := margin
	for _, k := range []struct{ class, name string }{
		{"ours", "lockport"}, {"variant", "lockport, other settings"}, {"theirs", "other libraries"}, {"floor", "the bare commands"},
	} {
		fmt.Fprintf(&b, `<rect class="%s" x="%.0f" y="50" width="12" height="12" rx="2"/><text class="note" x="%.0f" y="60">%s</text>`+"\n", k.class, x, x+18, k.name)
		x += 36 + 6.6*float64(len(k.name))
	}
	return b.String()
}

// scale puts values on a line.
type scale struct {
	low, high   float64 // of the line's ends
	logarithmic bool
}

// scaleOf has room for all figures, and for nothing where the scale is not logarithmic.
func scaleOf(shown []result.Figure) (s scale, ok bool) {
	low := math.Inf(1)
	for _, f := range shown {
		spread := f.Spread()
		s.high = math.Max(s.high, spread.High)
		if spread.Low > 0 {
			low = math.Min(low, spread.Low)
		}
	}
	if s.high <= 0 {
		return s, false
	}
	if s.logarithmic = s.high/low > farApart; s.logarithmic {
		s.low, s.high = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(s.high)))
		return s, true
	}
	s.high = ceiling(s.high)
	return s, true
}

// ceiling is the next round number.
func ceiling(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8, 10} {
		if v <= n*unit {
			return n * unit
		}
	}
	return 10 * unit
}

const left, right = margin + labels, width - margin - figures

func (s scale) at(v float64) float64 {
	part := v / s.high
	if s.logarithmic {
		part = math.Log(math.Max(v, s.low)/s.low) / math.Log(s.high/s.low)
	}
	return left + (right-left)*part
}

// ticks are at every decade, or at quarters.
func (s scale) ticks() (all []float64) {
	if !s.logarithmic {
		return []float64{0, s.high / 2, s.high}
	}
	step := 10.0
	if s.high/s.low > 1e6 {
		step = 100
	}
	for v := s.low; v <= s.high*1.001; v *= step {
		all = append(all, v)
	}
	return all
}

// tick is a round number without digits that say nothing.
func tick(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return Number(v)
}

// panel draws one figure of a scenario from y on, and returns where it ends.
func panel(b *strings.Builder, s result.Scenario, about, title string, y float64) float64 {
	var shown []result.Figure
	var rows []result.Row
	for _, r := range s.Rows {
		if f, ok := r.Figure(about); ok && len(f.Each) > 0 {
			shown, rows = append(shown, f), append(rows, r)
		}
	}
	sc, ok := scaleOf(shown)
	if !ok {
		return y
	}
	note := strings.TrimSpace(shown[0].Name+" "+shown[0].Unit) + "; " + shown[0].Best + " is better"
	if sc.logarithmic {
		note += "; logarithmic"
	}
	fmt.Fprintf(b, `<text class="head" x="%.0f" y="%.0f">%s</text>`, margin, y+18, html.EscapeString(title))
	fmt.Fprintf(b, `<text class="note" x="%.0f" y="%.0f" text-anchor="end">%s</text>`+"\n", width-margin, y+18, html.EscapeString(note))
	y += 30
	bottom := y + row*float64(len(shown))
	for i, v := range sc.ticks() {
		class := "grid"
		if i == 0 {
			class = "zero"
		}
		fmt.Fprintf(b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/><text class="note" x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n",
			class, sc.at(v), sc.at(v), y, bottom, sc.at(v), bottom+15, tick(v))
	}
	for i, f := range shown {
		mark(b, sc, rows[i], f.Spread(), y+row/2)
		y += row
	}
	return bottom + 40
}

// mark draws one library's figure at the height y.
func mark(b *strings.Builder, sc scale, of result.Row, f result.Spread, y float64) {
	weight := ""
	if of.Kind == "ours" {
		weight = ` class="us"`
	}
	x := sc.at(f.Median)
	fmt.Fprintf(b, `<text%s x="%.0f" y="%.1f" text-anchor="end">%s</text>`, weight, left-10, y+4.5, html.EscapeString(of.Library))
	if sc.logarithmic {
		fmt.Fprintf(b, `<line class="%s stem" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, of.Kind, left, x, y, y)
	} else {
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="13" rx="2"/>`, of.Kind, left, y-6.5, math.Max(1, x-left))
	}
	if f.High > f.Low {
		fmt.Fprintf(b, `<line class="spread" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, sc.at(f.Low), sc.at(f.High), y, y)
	}
	if sc.logarithmic {
		fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="5.5"/>`, of.Kind, x, y)
	}
	fmt.Fprintf(b, `<text%s x="%.1f" y="%.1f">%s</text>`+"\n", weight, math.Max(x, sc.at(f.High))+10, y+4.5, Number(f.Median))
}
