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
	"time"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/internal/lab/measure"
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
	Libraries  []lib.Library
	Scenarios  []Scenario
}

// Scenario is what was measured of one family's libraries.
type Scenario struct {
	Name, Title, Family, Setup string
	Rows                       []measure.Row
}

// Scenario is the one of that name, or an empty one. r may be nil.
func (r *Results) Scenario(name string) (s Scenario) {
	if r == nil {
		return s
	}
	return named(r.Scenarios, name, func(s Scenario) string { return s.Name })
}

// Row is a library's, or an empty one.
func (s Scenario) Row(library string) measure.Row {
	return named(s.Rows, library, func(r measure.Row) string { return r.Library })
}

func named[T any](all []T, name string, of func(T) string) (one T) {
	if i := slices.IndexFunc(all, func(one T) bool { return of(one) == name }); i >= 0 {
		one = all[i]
	}
	return one
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
