package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	chipHeight = 36.0
	chipGap    = 4.0
)

// matrixPicture is the matrix as a picture. On a phone it would be too small, so that the narrow one has a line for each cell.
func (r *Report) matrixPicture() *picture {
	if len(r.Cells) == 0 {
		return nil
	}
	rows, columns := r.matrix(), r.columns()
	var figures []string
	for _, m := range rows {
		for i, cells := range m.cells {
			for _, c := range shown(cells) {
				if c.NotRun == "" {
					figures = append(figures, fmt.Sprintf("%s %s %s: %s, %s", m.ID, columns[i].Title, c.Variant, c.Class, c.seen()))
				}
			}
		}
	}
	wide := drawMatrix(rows, columns)
	return &picture{"matrix", "What was observed of each hazard on each subject", sentence(figures), wide, wide}
}

func drawMatrix(rows []row, columns []Subject) *canvas {
	const left, column = 236.0, 112.0
	c := &canvas{w: left + column*float64(len(columns)) + 8, h: 1e6}
	body, head := font{size: 12}, 0.0
	for i, s := range columns {
		lines := strong.wrap(capital(s.Title), column-8, 2)
		for j, text := range lines {
			c.text("", strong, start, left+column*float64(i)+4, 18+float64(j)*strong.size*leading, text)
		}
		head = math.Max(head, 18+float64(len(lines))*strong.size*leading)
	}
	y := head
	for _, m := range rows {
		c.line("rule", 4, y, c.w-4, y)
		title := body.wrap(m.Title, left-48, 3)
		c.text("", strong, start, 6, y+20, strong.fit(m.ID, 34))
		for j, text := range title {
			c.text("", body, start, 42, y+20+float64(j)*body.size*leading, text)
		}
		height := math.Max(chipHeight, 12+float64(len(title))*body.size*leading) + 2*chipGap
		for i, cells := range m.cells {
			at := y + chipGap
			x := left + column*float64(i)
			for _, cell := range shown(cells) {
				at += c.chip(cell, x, at, column-6) + chipGap
			}
			height = math.Max(height, at-y)
		}
		y += height
	}
	c.h = math.Ceil(y + 4)
	return c
}

// chip draws a cell with its icon, its word and how often, and returns how high it is.
func (c *canvas) chip(cell *Cell, x, y, width float64) float64 {
	if cell.NotRun != "" {
		text := "– not run"
		if cell.Variant != "" {
			text += ": " + cell.Variant
		}
		c.titled(cell.NotRun, func() {
			for i, line := range small.wrap(text, width-10, 2) {
				c.text("soft", small, start, x+6, y+16+float64(i)*small.size*leading, line)
			}
		})
		return chipHeight
	}
	l := lookOf(cell.Class)
	lines := small.wrap(string(cell.Class), width-30, 2)
	last := cell.seen()
	about := []string{last}
	if cell.Variant != "" {
		about = slices.Concat(small.wrap(cell.Variant, width-30, 3), about)
	}
	if cell.landed() {
		about = append(about, small.wrap(lateLanded, width-30, 2)...)
	}
	height := 8 + float64(len(lines)+len(about))*small.size*leading
	c.rect("chip-box "+l.key, box{x, y, x + width, y + height}, 5)
	if cell.landed() {
		c.rect("landed", box{x + 1, y + 1, x + width - 1, y + height - 1}, 4)
	}
	c.element("use", "class", "icon "+l.key, "href", "#i-"+l.key, "x", x+6, "y", y+5, "width", 13.0, "height", 13.0)
	at := y + 14
	for _, text := range slices.Concat(lines, about) {
		c.text("on-"+l.key, small, start, x+24, at, small.fit(text, width-26))
		at += small.size * leading
	}
	return math.Max(chipHeight, height)
}

// timelinePicture is who held it when, of the run that shows a cell's class best.
func (r *Report) timelinePicture(c *Cell, run int) *picture {
	title := fmt.Sprintf("Who held the lock when: %s %s on %s %s", c.Hazard, r.hazard(c.Hazard).Title, r.title(c.Subject), c.Variant)
	return draw(c.ID(), strings.TrimSpace(title), c.Runs[run].tell(), func(width float64) *canvas { return drawTimeline(&c.Runs[run], width) })
}

// hazard is that of an id.
func (r *Report) hazard(id string) Hazard {
	for _, h := range r.Hazards {
		if h.ID == id {
			return h
		}
	}
	return Hazard{ID: id}
}
