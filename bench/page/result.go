// Package page stores a run's measurements as JSON, defines lockport's goals, and renders both. Its test keeps the text in docs/benchmarks.md.
package page

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
)

// Results are the results of one family in one run. Compare figures only within one run, not across machines or days.
type Results struct {
	Made      time.Time
	Machine   report.Machine
	Turns     int
	Servers   map[string]string // versions, by kind
	Libraries []lib.Library
	Scenarios []Scenario
}

// Scenario has the results of one family's libraries in one scenario.
type Scenario struct {
	Name, Title string
	Rows        []measure.Row
}

// Scenario returns the scenario of that name, or an empty one. r may be nil.
func (r *Results) Scenario(name string) (s Scenario) {
	if r == nil {
		return s
	}
	return named(r.Scenarios, name, func(s Scenario) string { return s.Name })
}

// Row returns a library's row, or an empty one.
func (s Scenario) Row(library string) measure.Row {
	return named(s.Rows, library, func(r measure.Row) string { return r.Library })
}

func named[T any](all []T, name string, of func(T) string) (one T) {
	if i := slices.IndexFunc(all, func(one T) bool { return of(one) == name }); i >= 0 {
		one = all[i]
	}
	return one
}

// numbers matches lists of numbers, which json indents to one line each.
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
