// Package result is what a run has measured, as JSON, and what is made of its numbers.
package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/report"
)

// Results are those of one run. Figures of one run can be compared with each other, not with those of another machine or day.
type Results struct {
	Made    time.Time
	Machine Machine
	Turns   int
	// Comparable: everything was measured with the full times. Those of a quick run show that the program works, and no more.
	Comparable bool
	Servers    map[string]string // versions, by kind
	Libraries  []Library
	Scenarios  []Scenario
}

// Machine is where it was measured.
type Machine struct {
	System, Processor string
	Cores             int // that the run was allowed to use
	Go                string
}

// Library is one that has been measured.
type Library struct {
	Family, Name, Kind, Module, Version, How, Renewal string
}

// Scenario is what was measured of one family's libraries.
type Scenario struct {
	Name, Title, Family, Setup string
	Rows                       []Row
}

// Row is one library in one scenario.
type Row struct {
	Library, Kind string
	// Turns are the numbers of those in which it was measured: the first is 0.
	Turns   []int    `json:",omitempty"`
	Figures []Figure `json:",omitempty"`
	// NotRun is why it was not measured at all, and Failed what happened in the turns that are missing.
	NotRun string   `json:",omitempty"`
	Failed []string `json:",omitempty"`
}

// Figure is one number, of all turns.
type Figure struct {
	Name, Unit string
	// Best is "less" or "more"; empty where neither is better.
	Best string    `json:",omitempty"`
	Each []float64 // of the row's turns
}

// Spread is that of the turns.
func (f Figure) Spread() report.Spread { return report.SpreadOf(f.Each) }

// Of are the results of one family.
func (r *Results) Of(family string) *Results {
	of := *r
	of.Libraries = slices.DeleteFunc(slices.Clone(r.Libraries), func(l Library) bool { return l.Family != family })
	of.Scenarios = slices.DeleteFunc(slices.Clone(r.Scenarios), func(s Scenario) bool { return s.Family != family })
	return &of
}

// Scenario is the one of that name; false if it was not measured.
func (r *Results) Scenario(family, name string) (Scenario, bool) {
	i := slices.IndexFunc(r.Scenarios, func(s Scenario) bool { return s.Family == family && s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return r.Scenarios[i], true
}

// Row is a library's; false if it did not take part, or has no figures.
func (s Scenario) Row(library string) (Row, bool) {
	i := slices.IndexFunc(s.Rows, func(r Row) bool { return r.Library == library && len(r.Figures) > 0 })
	if i < 0 {
		return Row{}, false
	}
	return s.Rows[i], true
}

// numbers is what JSON has a line for each of, which nobody wants to read.
var numbers = regexp.MustCompile(`\[\s+([-+0-9.e,\s]+?)\s+\]`)

// Write writes the results to a file.
func (r *Results) Write(file string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	text = numbers.ReplaceAllFunc(text, func(list []byte) []byte { return bytes.Join(bytes.Fields(list), nil) })
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// Read reads them.
func Read(file string) (*Results, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(Results)
	return r, json.Unmarshal(text, r)
}

// ReadAll reads all the files NAME.json of a folder, one for each family that was measured, in the order of their names.
func ReadAll(folder string) (all []*Results, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		r, err := Read(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
	return all, nil
}
