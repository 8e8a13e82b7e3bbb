package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// row is a hazard in the matrix: its cells for each subject, in the order of the subjects.
type row struct {
	Hazard
	Cells [][]*Cell
}

// columns are the subjects that have a cell, also those that no subject describes.
func (r *Report) columns() (all []Subject) {
	for _, s := range r.Subjects {
		if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Subject == s.Name }) {
			all = append(all, s)
		}
	}
	for _, c := range r.Cells {
		if !slices.ContainsFunc(all, func(s Subject) bool { return s.Name == c.Subject }) {
			all = append(all, Subject{Name: c.Subject, Title: c.Subject})
		}
	}
	return all
}

// rows are hazards by subjects. Hazards that only a cell knows have no texts.
func (r *Report) rows() (rows []row) {
	columns, hazards := r.columns(), slices.Clone(r.Hazards)
	for _, c := range r.Cells {
		if !slices.ContainsFunc(hazards, func(h Hazard) bool { return h.ID == c.Hazard }) {
			hazards = append(hazards, Hazard{ID: c.Hazard})
		}
	}
	if len(columns) == 0 {
		return nil
	}
	for _, h := range hazards {
		m := row{h, make([][]*Cell, len(columns))}
		for i := range r.Cells {
			if c := &r.Cells[i]; c.Hazard == h.ID {
				at := slices.IndexFunc(columns, func(s Subject) bool { return s.Name == c.Subject })
				m.Cells[at] = append(m.Cells[at], c)
			}
		}
		rows = append(rows, m)
	}
	return rows
}

// Anchor is the hazard's place in the page.
func (m row) Anchor() string { return anchorOf(m.ID) }

// All are its cells, one after the other.
func (m row) All() []*Cell { return slices.Concat(m.Cells...) }

// Worst is its cell with the greatest harm; nil if there was none.
func (m row) Worst() (worst *Cell) {
	for _, c := range m.All() {
		if c.NotRun == "" && Harmful(c.Class) && (worst == nil || severity(c.Class) > severity(worst.Class)) {
			worst = c
		}
	}
	return worst
}

// shown are the cells of a hazard and subject in the matrix: without those that only a full run plays, if there is another.
func shown(cells []*Cell) []*Cell {
	some := slices.DeleteFunc(slices.Clone(cells), func(c *Cell) bool { return c.NotRun == OnlyFull })
	if len(some) == 0 {
		return cells
	}
	return some
}

// Landed says that a late write landed although no two clients believed they held the lock at once. The cell is as safe as a lock can be, but what
// the lock protects is not.
func (c *Cell) Landed() bool { return c.NotRun == "" && c.LateWrite == "landed" && c.Class != Unsafe }

// landed says that there is such a cell.
func (r *Report) landed() bool {
	return slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Landed() })
}

// Often is in how many of its runs the harm was seen.
func (c *Cell) Often() string { return fmt.Sprintf("%s of %s", count(c.Seen), count(c.Of)) }

// best is the run that shows the cell's class, which is drawn first; -1 if there is none.
func (c *Cell) best() int {
	best := min(0, len(c.Runs)-1)
	for i, r := range slices.Backward(c.Runs) {
		if r.Class == c.Class && (r.Observed == c.Observed || c.Runs[best].Observed != c.Observed || c.Runs[best].Class != c.Class) {
			best = i
		}
	}
	return best
}

// title is what people call a subject.
func (r *Report) title(name string) string {
	if i := slices.IndexFunc(r.Subjects, func(s Subject) bool { return s.Name == name && s.Title != "" }); i >= 0 {
		return r.Subjects[i].Title
	}
	return name
}

const (
	chipHeight = 36.0
	chipGap    = 4.0
)

// matrixPicture is the matrix as a picture, which is as wide as its columns.
func (r *Report) matrixPicture() *picture {
	const left, column = 236.0, 112.0
	rows, columns := r.rows(), r.columns()
	c := &canvas{w: left + column*float64(len(columns)) + 8, h: 1e6}
	var figures []string
	body, y := font{size: 12}, 18.0
	for i, s := range columns {
		for j, text := range strong.wrap(capital(s.Title), column-8, 2) {
			c.text("", strong, start, left+column*float64(i)+4, 18+float64(j)*strong.size*leading, text)
			y = max(y, 18+float64(j+1)*strong.size*leading)
		}
	}
	for _, m := range rows {
		c.line("rule", 4, y, c.w-4, y)
		title := body.wrap(m.Title, left-48, 3)
		c.text("", strong, start, 6, y+20, strong.fit(m.ID, 34))
		for j, text := range title {
			c.text("", body, start, 42, y+20+float64(j)*body.size*leading, text)
		}
		height := max(chipHeight, 12+float64(len(title))*body.size*leading) + 2*chipGap
		for i, cells := range m.Cells {
			at := y + chipGap
			for _, cell := range shown(cells) {
				at += c.chip(cell, left+column*float64(i), at, column-6) + chipGap
				if cell.NotRun == "" {
					figures = append(figures, fmt.Sprintf("%s %s %s: %s, %s", m.ID, columns[i].Title, cell.Variant, cell.Class, cell.Often()))
				}
			}
			height = max(height, at-y)
		}
		y += height
	}
	c.h = math.Ceil(y + 4)
	return &picture{"matrix", "What was observed of each hazard on each subject", strings.Join(figures, "; ") + ".", c, c}
}

// chip draws a cell with its icon, its word and how often, and returns how high it is.
func (c *canvas) chip(cell *Cell, x, y, width float64) float64 {
	if cell.NotRun != "" {
		c.titled(cell.NotRun, func() {
			for i, line := range small.wrap("– not run "+cell.Variant, width-10, 2) {
				c.text("soft", small, start, x+6, y+16+float64(i)*small.size*leading, line)
			}
		})
		return chipHeight
	}
	l := lookOf(cell.Class)
	lines := slices.Concat(small.wrap(string(cell.Class), width-30, 2), small.wrap(cell.Variant, width-30, 3), []string{cell.Often()})
	if cell.Landed() {
		lines = append(lines, small.wrap(lateLanded, width-30, 2)...)
	}
	height := 8 + float64(len(lines))*small.size*leading
	c.rect("chip-box "+l.Key, box{x, y, x + width, y + height}, 5)
	if cell.Landed() {
		c.rect("landed", box{x + 1, y + 1, x + width - 1, y + height - 1}, 4)
	}
	c.element("use", "class", "icon "+l.Key, "href", "#i-"+l.Key, "x", x+6, "y", y+5, "width", 13.0, "height", 13.0)
	for i, text := range lines {
		c.text("on-"+l.Key, small, start, x+24, y+14+float64(i)*small.size*leading, small.fit(text, width-26))
	}
	return max(chipHeight, height)
}
