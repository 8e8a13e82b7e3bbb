package report

import (
	"fmt"
	"slices"
	"strings"
)

// row is a hazard in the matrix: its cells for each subject, ordered by subject.
type row struct {
	Hazard
	Cells [][]*entry
}

// entry is a cell with its subject's title.
type entry struct {
	*Cell
	Who string
}

// Columns returns the subjects that have a cell.
func (r view) Columns() []Subject {
	return slices.DeleteFunc(slices.Clone(r.Subjects), func(s Subject) bool {
		return !slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Subject == s.Name })
	})
}

// Matrix returns a row for each hazard; none without cells.
func (r view) Matrix() (rows []row) {
	columns := r.Columns()
	if len(columns) == 0 {
		return nil
	}
	for _, h := range r.Hazards {
		m := row{h, make([][]*entry, len(columns))}
		for i, s := range columns {
			for j := range r.Cells {
				if c := &r.Cells[j]; c.Hazard == h.ID && c.Subject == s.Name {
					m.Cells[i] = append(m.Cells[i], &entry{c, r.Title(s.Name)})
				}
			}
		}
		rows = append(rows, m)
	}
	return rows
}

// Title returns a subject's title.
func (r view) Title(name string) string {
	if i := slices.IndexFunc(r.Subjects, func(s Subject) bool { return s.Name == name && s.Title != "" }); i >= 0 {
		return r.Subjects[i].Title
	}
	return name
}

// Anchor returns the hazard's anchor in the page.
func (m row) Anchor() string { return anchorOf(m.ID) }

// All returns its cells, one after another.
func (m row) All() []*entry { return slices.Concat(m.Cells...) }

// Worst returns its cell with the greatest harm; nil without harm.
func (m row) Worst() (worst *entry) {
	for _, e := range m.All() {
		if !e.Class.IsSafe() && (worst == nil || Compare(e.Class, worst.Class) > 0) {
			worst = e
		}
	}
	return worst
}

// Landed says that a late write landed although no two clients believed they held the lock at once: the lock is safe, but what it protects is not.
func (c *Cell) Landed() bool { return c.NotRun == "" && c.LateWrite == "landed" && c.Class != Unsafe }

// shows says that the cell has this class, or a late write that landed.
func (c *Cell) shows(class Class) bool {
	return c.NotRun == "" && c.Class == class || class == lateLanded && c.Landed()
}

// Often says in how many runs the harm was seen.
func (c *Cell) Often() string { return fmt.Sprintf("%d of %d", c.Seen, c.Of) }

// Word is the cell in short.
func (c *Cell) Word() string {
	if c.NotRun != "" {
		return "-"
	}
	return fmt.Sprintf("%s%s %d/%d", lookOf(c.Class).Short, map[bool]string{true: "*"}[c.Landed()], c.Seen, c.Of)
}

// best is the run that shows the cell's class, which is drawn first; -1 without runs. Observed begins with what was observed in it.
func (c *Cell) best() int {
	telling := slices.IndexFunc(c.Runs, func(r Run) bool { return r.Class == c.Class && strings.HasPrefix(c.Observed, r.Observed) })
	return max(telling, min(0, len(c.Runs)-1))
}
