// Package result is what a run has measured, as JSON, and what is made of its numbers.
package result

import (
	"encoding/json"
	"os"
	"time"
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
	Best string `json:",omitempty"`
	Spread
	Each []float64 // of the row's turns
	// To are the ratios to the same figure of others, each made within a turn.
	To map[string]Spread `json:",omitempty"`
}

// Spread is the middle and the ends of what the turns gave.
type Spread struct {
	Median, Low, High float64
}

// Write writes the results to a file.
func (r *Results) Write(file string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
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
