package hazards

import (
	"fmt"
	"strings"
	"sync"

	"github.com/lockport/lockport/internal/lab/report"
)

// cell collects the plays of a scenario.
type cell struct {
	*scenario
	reason string // not to play it
	plays  int    // how often it is played

	mu     sync.Mutex // guards what is below
	runs   []report.Run
	errors []error // of the plays that broke off
}

// name is the scenario's for people: "H7 redis (replicas=1)".
func (c *cell) name() string {
	if c.variant == "" {
		return c.hazard + " " + c.subject
	}
	return c.hazard + " " + c.subject + " (" + c.variant + ")"
}

// add takes up a play. If it broke off, with err, only harm that it has shown counts.
func (c *cell) add(r report.Run, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errors = append(c.errors, err)
	}
	if err == nil || !r.Class.IsSafe() {
		c.runs = append(c.runs, r)
	}
}

// report sums up the plays. It is not complete if there are none, nor a reason for that.
func (c *cell) report() (r report.Cell, complete bool) {
	r = report.Cell{Hazard: c.hazard, Subject: c.subject, Variant: c.variant, Setup: c.setup, NotRun: c.reason, Of: len(c.runs), Runs: c.runs}
	if c.lock != "" {
		r.Lock = article(c.lock).Is
	}
	broken := ""
	if len(c.errors) > 0 {
		broken = strings.Join(strings.Fields(c.errors[0].Error()), " ")
	}
	if len(c.runs) == 0 {
		if c.reason == "" && broken != "" {
			r.NotRun = "It could not be played: " + broken
		}
		return r, r.NotRun != ""
	}
	telling := c.runs[0]
	for _, one := range c.runs[1:] {
		if worse(one, telling) {
			telling = one
		}
	}
	r.Class, r.Observed, r.LateWrite = telling.Class, telling.Observed, lateWrite(c.runs...)
	for _, one := range c.runs {
		if one.Class == r.Class && r.Class != report.Safe {
			r.Seen++
		}
	}
	if broken != "" {
		r.Observed += fmt.Sprintf(" Plays that broke off: %d (%s).", len(c.errors), broken)
	}
	return r, true
}

// worse says that a run tells more than another: its class is worse, or a late write landed in it alone.
func worse(a, b report.Run) bool {
	class := report.Compare(a.Class, b.Class)
	return class > 0 || class == 0 && lateWrite(a) == landed && lateWrite(b) != landed
}
