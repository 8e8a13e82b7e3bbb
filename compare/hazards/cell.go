package hazards

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lockport/lockport/internal/lab/report"
)

// cell collects the plays of a scenario.
type cell struct {
	*scenario
	reason string // not to play it
	plays  int    // how often it is played

	mu      sync.Mutex // guards what is below
	results []result
	errors  []error // of the plays that broke off
}

// result is what a play has shown, and what became of late writes.
type result struct {
	report.Run
	late string
}

// compare orders results by how much they tell: the worse class first, and of one class a late write that landed.
func compare(a, b result) int {
	switch {
	case a.Class != b.Class && report.Worse(a.Class, b.Class) == a.Class, a.Class == b.Class && a.late == landed && b.late != landed:
		return -1
	case a.Class == b.Class && (a.late == landed) == (b.late == landed):
		return 0
	}
	return 1
}

// name is the scenario's for people: "H7 redis (replicas=1)".
func (c *cell) name() string {
	if c.variant == "" {
		return c.hazard + " " + c.subject
	}
	return c.hazard + " " + c.subject + " (" + c.variant + ")"
}

// add takes up a play. If it broke off, with err, only harm that it has shown counts.
func (c *cell) add(r result, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errors = append(c.errors, err)
	}
	if err == nil || report.Harmful(r.Class) {
		c.results = append(c.results, r)
	}
}

// report sums up the plays. It is not complete if there are none, nor a reason for that.
func (c *cell) report() (r report.Cell, complete bool) {
	r = report.Cell{Hazard: c.hazard, Subject: c.subject, Variant: c.variant, Setup: c.setup, NotRun: c.reason, Of: len(c.results)}
	if c.lock != "" {
		r.Lock = article(c.lock).Is
	}
	broken := ""
	if len(c.errors) > 0 {
		broken = strings.Join(strings.Fields(c.errors[0].Error()), " ")
	}
	if len(c.results) == 0 {
		if c.reason == "" && broken != "" {
			r.NotRun = "It could not be played: " + broken
		}
		return r, r.NotRun != ""
	}
	telling := slices.MinFunc(c.results, compare)
	r.Class, r.Observed, r.LateWrite = telling.Class, telling.Observed, telling.late
	for _, one := range c.results {
		r.Runs = append(r.Runs, one.Run)
		if one.Class == r.Class && r.Class != report.Safe {
			r.Seen++
		}
		if one.late == landed {
			r.LateWrite = landed
		}
	}
	if broken != "" {
		r.Observed += fmt.Sprintf(" Plays that broke off: %d (%s).", len(c.errors), broken)
	}
	return r, true
}
