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
	scenario

	mu     sync.Mutex // guards the fields below
	runs   []report.Run
	errors []error // of plays that broke off
}

// add adds a play. If it broke off with err, only observed harm counts.
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

// report sums up the plays. Without any, NotRun says why, unless the run was interrupted.
func (c *cell) report() report.Cell {
	r := c.Cell
	r.Of, r.Runs = len(c.runs), c.runs
	broken := ""
	if len(c.errors) > 0 {
		broken = strings.Join(strings.Fields(c.errors[0].Error()), " ")
	}
	if len(c.runs) == 0 {
		if broken != "" {
			r.NotRun = "It could not be played: " + broken
		}
		return r
	}
	telling := slices.MaxFunc(c.runs, func(a, b report.Run) int { return tells(a) - tells(b) })
	r.Class, r.Observed, r.LateWrite = telling.Class, telling.Observed, lateWrite(c.runs...)
	for _, one := range c.runs {
		if one.Class == r.Class && r.Class != report.Safe {
			r.Seen++
		}
	}
	if broken != "" {
		r.Observed += fmt.Sprintf(" Plays that broke off: %d (%s).", len(c.errors), broken)
	}
	return r
}

// tells ranks runs for the report: by class, and half a class higher if a late write landed.
func tells(r report.Run) int {
	n := 2 * report.Compare(r.Class, report.Safe)
	if lateWrite(r) == landed {
		n++
	}
	return n
}
