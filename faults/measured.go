package faults

import (
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// Measured holds the figures of a long run, as in docs/faults.json. Not safe for concurrent use.
type Measured struct {
	Run Run `json:"run"`
	// Cells are the figures of each cell, by [CellKey]. Arrangements sum them by the name of the environment.
	Cells        map[string]history.Figures `json:"cells"`
	Arrangements map[string]history.Figures `json:"arrangements"`
}

// Run describes the run that took the figures. It has no date, so two runs of one program differ only in their measurements.
type Run struct {
	Seed     uint64            `json:"seed"`
	Machine  string            `json:"machine"`  // processors and system, for people
	Versions map[string]string `json:"versions"` // Go and the servers
	Duration string            `json:"duration"` // "2h3m"
	Phases   int               `json:"phases"`
	Faults   int               `json:"faults"`
}

// CellKey names a cell uniquely: "redis/holder-killed".
func CellKey(a *environment.Environment, c *play.Cell) string { return a.Name + "/" + c.Fault }

// Add adds the figures of phases of a cell.
func (m *Measured) Add(a *environment.Environment, c *play.Cell, f history.Figures) {
	if m.Cells == nil {
		m.Cells, m.Arrangements = make(map[string]history.Figures), make(map[string]history.Figures)
	}
	cell, all := m.Cells[CellKey(a, c)], m.Arrangements[a.Name]
	cell.Add(f)
	all.Add(f)
	m.Cells[CellKey(a, c)], m.Arrangements[a.Name] = cell, all
	m.Run.Phases += f.Phases
	m.Run.Faults += f.Faults
}
