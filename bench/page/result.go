// Package page has what a run has measured, as JSON, what lockport is meant to reach, and the page that shows both.
package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/internal/lab/report"
)

// Results are those of one family in one run. Figures of one run can be compared with each other, not with those of another machine or day.
type Results struct {
	Made    time.Time
	Machine struct {
		System, Processor string
		Cores             int // that the run was allowed to use
		Go                string
	}
	Turns int
	// Comparable: everything was measured with the full times. Those of a quick run show that the program works, and no more.
	Comparable bool
	Servers    map[string]string // versions, by kind
	Libraries  []Library
	Scenarios  []Scenario
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

// Less is a figure of one turn of which less is better. Of More, more is.
func Less(name, unit string, v float64) Figure { return Figure{name, unit, "less", []float64{v}} }
func More(name, unit string, v float64) Figure { return Figure{name, unit, "more", []float64{v}} }

// Add adds a turn's figures to a row: the same ones in every turn. They keep five digits, which is more than any run can tell apart.
func (r *Row) Add(turn int, figures ...Figure) {
	r.Turns = append(r.Turns, turn)
	for _, f := range figures {
		v, _ := strconv.ParseFloat(strconv.FormatFloat(f.Each[0], 'g', 5, 64), 64)
		i := slices.IndexFunc(r.Figures, func(other Figure) bool { return f.Name == other.Name })
		if i < 0 {
			i, f.Each = len(r.Figures), nil
			r.Figures = append(r.Figures, f)
		}
		r.Figures[i].Each = append(r.Figures[i].Each, v)
	}
}

// Figure is the row's figure of that name, or an empty one.
func (r Row) Figure(name string) (f Figure) {
	for _, one := range r.Figures {
		if one.Name == name {
			return one
		}
	}
	return f
}

// against makes one number of two of each turn in which both rows were measured.
func (r Row) against(other Row, figure string, of func(mine, other float64) float64) (each []float64) {
	a, b := r.Figure(figure).Each, other.Figure(figure).Each
	for i := range a {
		if j := slices.Index(other.Turns, r.Turns[i]); j >= 0 && j < len(b) {
			each = append(each, of(a[i], b[j]))
		}
	}
	return each
}

func difference(mine, other float64) float64 { return mine - other }

// ratios are those of a figure to another row's, made within each turn: what makes the machine slower for a while does so for both. There is none to nothing.
func (r Row) ratios(other Row, figure string) []float64 {
	each := r.against(other, figure, func(mine, other float64) float64 {
		if other <= 0 {
			return -1
		}
		return mine / other
	})
	return slices.DeleteFunc(each, func(v float64) bool { return v < 0 })
}

// Ratio is the spread of the ratios of a figure to another row's.
func (r Row) Ratio(other Row, figure string) report.Spread {
	return report.SpreadOf(r.ratios(other, figure))
}

// Scenario is the one of that name, or an empty one. r may be nil.
func (r *Results) Scenario(name string) (s Scenario) {
	if r != nil {
		for _, one := range r.Scenarios {
			if one.Name == name {
				return one
			}
		}
	}
	return s
}

// Row is a library's, or an empty one.
func (s Scenario) Row(library string) (r Row) {
	for _, one := range s.Rows {
		if one.Library == library {
			return one
		}
	}
	return r
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

// read reads the files NAME.json of a folder, one for each family that was measured.
func read(folder string) (map[string]*Results, error) {
	runs := make(map[string]*Results)
	for _, f := range lib.Families {
		file := filepath.Join(folder, f.Name+".json")
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			runs[f.Name] = new(Results)
			err = json.Unmarshal(text, runs[f.Name])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return runs, nil
}
