package faults

import (
	"fmt"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// Verdict is what a phase has shown.
type Verdict struct {
	History *history.History
	// Overlaps are pairs of workers that believed they held one lock.
	Overlaps []history.Overlap
	// Breaches are violations of the cell's statement, or of rules for all cells, as messages for people.
	Breaches []string
}

// Seen says that two believed they held one lock.
func (v *Verdict) Seen() bool { return len(v.Overlaps) > 0 }

// Judge judges a phase by belief, tokens and registers, against the statement of its cell. An unsafe cell need not show itself in each play.
func Judge(p *play.Played) (*Verdict, error) {
	h, err := history.NewHistory(p.Events)
	if err != nil {
		return nil, err
	}
	v := &Verdict{History: h, Overlaps: h.Overlaps(), Breaches: p.Stuck}
	if p.Cell.Outcome.IsSafe() {
		for _, o := range v.Overlaps {
			v.breach("the cell is stated to be %s, but two believed they held one lock:\n%s", p.Cell.Outcome, o.Describe(h))
		}
	}
	if p.Cell.Outcome == report.Unavailable {
		v.unavailable(p.Environment)
	}
	v.showsNothing(p)
	v.attempts()
	v.holds(p)
	v.deadlines(p.Environment)
	if p.Environment.Tokens && p.Cell.Outcome != report.Unsafe {
		for _, t := range h.TokenFaults() {
			v.breach("tokens must grow in the order of grants: %s", t.Describe(h))
		}
		if p.Lost != 0 {
			v.breach("%d updates were lost behind a fence", p.Lost)
		}
	}
	return v, nil
}

func (v *Verdict) breach(format string, args ...any) {
	v.Breaches = append(v.Breaches, fmt.Sprintf(format, args...))
}
