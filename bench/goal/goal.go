// Package goal has what lockport is meant to reach beside other libraries and beside the bare commands, as data, and says of the results of a run whether
// it has been reached. Every goal is a ratio within one run, or a bound that no machine moves.
package goal

import (
	"cmp"
	"slices"

	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/internal/lab/report"
)

// Goal is one figure of one library of ours on one family of servers, and what it is to be.
type Goal struct {
	ID     string // "cycle/redis/floor"
	Row    string // whose part it is, of Rows
	Family string
	What   string // for people: what is compared with what
	// Scenarios are where it is measured; of several the worst counts.
	Scenarios []string
	Figure    string
	Ours      string // "lockport", or a variant
	// To are the libraries that it is compared with, the best of them in each turn. None: the figure itself is bounded.
	To []string
	// ToScenario, if not empty, is where they are measured.
	ToScenario string
	// Beyond makes the comparison a difference, not a ratio.
	Beyond bool
	// One of the two is the bound; neither: it is to be reported, whatever it is.
	AtMost, AtLeast *float64
}

// Reached says whether a goal was.
type Reached string

const (
	Yes         Reached = "yes"         // in every turn
	No          Reached = "no"          // in none
	NotCertain  Reached = "not certain" // in some
	Reported    Reached = "reported"    // there is no bound
	NotMeasured Reached = "not measured"
)

// Outcome is what a run says of a goal.
type Outcome struct {
	Goal
	report.Spread
	Reached Reached
	// Scenario is the one that counted.
	Scenario string
	// Turns is how many there were.
	Turns int
}

// Evaluate says of each goal what the runs have measured, one for each family and in any order. The outcomes are in the order of [Rows].
func Evaluate(goals []Goal, runs []*result.Results) []Outcome {
	var all []Outcome
	for _, g := range goals {
		o := Outcome{Goal: g, Reached: NotMeasured}
		for _, r := range runs {
			o.look(r)
		}
		all = append(all, o)
	}
	slices.SortStableFunc(all, func(a, b Outcome) int { return slices.Index(Rows, a.Row) - slices.Index(Rows, b.Row) })
	return all
}

// look evaluates the goal on one run, if that has something to say.
func (o *Outcome) look(r *result.Results) {
	for _, name := range o.Scenarios {
		each := o.values(r, name)
		if len(each) == 0 {
			continue
		}
		next := Outcome{Goal: o.Goal, Spread: report.SpreadOf(each), Reached: o.reached(each), Scenario: name, Turns: len(each)}
		if o.Reached == NotMeasured || next.worse(*o) {
			*o = next
		}
	}
}

// values are those of all turns in one scenario.
func (o *Outcome) values(r *result.Results, name string) []float64 {
	s, _ := r.Scenario(o.Family, name)
	ours, ok := s.Row(o.Ours)
	if !ok {
		return nil
	}
	if len(o.To) == 0 {
		f, _ := ours.Figure(o.Figure)
		return f.Each
	}
	others, _ := r.Scenario(o.Family, cmp.Or(o.ToScenario, name))
	of := result.Quotient
	if o.Beyond {
		of = result.Difference
	}
	return ours.Against(o.Figure, best(others, o.To, o.Figure), o.Figure, of)
}

// best is a row of the best that some libraries had in each turn.
func best(s result.Scenario, libraries []string, figure string) (all result.Row) {
	values := make(map[int]result.Value)
	for _, l := range libraries {
		row, _ := s.Row(l)
		f, _ := row.Figure(figure)
		for i, v := range f.Each {
			turn := row.Turns[i]
			if old, ok := values[turn]; !ok || f.Best == "more" && v > old.V || f.Best != "more" && v < old.V {
				values[turn] = result.Value{Name: f.Name, Unit: f.Unit, Best: f.Best, V: v}
			}
		}
	}
	for turn, v := range values {
		all.Add(turn, []result.Value{v})
	}
	return all
}

func (g Goal) reached(each []float64) Reached {
	if g.AtMost == nil && g.AtLeast == nil {
		return Reported
	}
	n := 0
	for _, v := range each {
		if g.AtMost != nil && v <= *g.AtMost || g.AtLeast != nil && v >= *g.AtLeast {
			n++
		}
	}
	switch n {
	case len(each):
		return Yes
	case 0:
		return No
	}
	return NotCertain
}

// worse says whether the outcome is further from the bound than another of the same goal.
func (o Outcome) worse(than Outcome) bool {
	rank := []Reached{Yes, Reported, NotCertain, No}
	if a, b := slices.Index(rank, o.Reached), slices.Index(rank, than.Reached); a != b {
		return a > b
	}
	if o.AtLeast != nil {
		return o.Median < than.Median
	}
	return o.Median > than.Median
}
