package report

import (
	"fmt"
	"slices"
)

// row is a hazard in the matrix: its cells for each subject, in the order of the subjects.
type row struct {
	Hazard
	cells [][]*Cell
}

// columns are the subjects that have a cell.
func (r *Report) columns() []Subject {
	var all []Subject
	for _, s := range r.Subjects {
		if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Subject == s.Name }) {
			all = append(all, s)
		}
	}
	for _, c := range r.Cells { // what no subject describes is shown nevertheless
		if !slices.ContainsFunc(all, func(s Subject) bool { return s.Name == c.Subject }) {
			all = append(all, Subject{Name: c.Subject, Title: c.Subject})
		}
	}
	return all
}

// matrix is hazards by subjects. Hazards that only a cell knows have no texts.
func (r *Report) matrix() []row {
	columns := r.columns()
	hazards := slices.Clone(r.Hazards)
	for _, c := range r.Cells {
		if !slices.ContainsFunc(hazards, func(h Hazard) bool { return h.ID == c.Hazard }) {
			hazards = append(hazards, Hazard{ID: c.Hazard})
		}
	}
	var rows []row
	for _, h := range hazards {
		m := row{Hazard: h, cells: make([][]*Cell, len(columns))}
		for i := range r.Cells {
			c := &r.Cells[i]
			if c.Hazard == h.ID {
				at := slices.IndexFunc(columns, func(s Subject) bool { return s.Name == c.Subject })
				m.cells[at] = append(m.cells[at], c)
			}
		}
		rows = append(rows, m)
	}
	return rows
}

// shown are the cells of one hazard and subject that a matrix shows: without those that only a full run plays, where it shows another one.
func shown(cells []*Cell) []*Cell {
	if !slices.ContainsFunc(cells, func(c *Cell) bool { return c.NotRun != OnlyFull }) {
		return cells
	}
	return slices.DeleteFunc(slices.Clone(cells), func(c *Cell) bool { return c.NotRun == OnlyFull })
}

// lateLanded is what is said of a cell whose class does not say it.
const lateLanded = "late write landed"

// landed says that a late write landed although two never believed to hold the lock at one time, as of one who had looked before it was stopped. The cell is
// as safe as a lock can be, and what the lock protects is not.
func (c *Cell) landed() bool { return c.NotRun == "" && c.LateWrite == "landed" && c.Class != Unsafe }

// landed says that there is such a cell.
func (r *Report) landed() bool {
	return slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.landed() })
}

// meansLanded explains such a cell.
const meansLanded = "As its class says, and yet nothing refused what an older holder wrote after a newer one had the lock."

// seen is in how many of its runs the harm was seen.
func (c *Cell) seen() string { return fmt.Sprintf("%s of %s", count(c.Seen), count(c.Of)) }

// best is the run that shows the cell's class, which is drawn first; -1 if there is none.
func (c *Cell) best() int {
	if i := slices.IndexFunc(c.Runs, func(r Run) bool { return r.Class == c.Class && r.Observed == c.Observed }); i >= 0 {
		return i
	}
	if i := slices.IndexFunc(c.Runs, func(r Run) bool { return r.Class == c.Class }); i >= 0 {
		return i
	}
	return min(0, len(c.Runs)-1)
}
