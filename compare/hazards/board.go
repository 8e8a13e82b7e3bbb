package hazards

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// board collects the runs of a scenario. add and fail are safe for concurrent use.
type board struct {
	scenario *scenario
	reason   string // not to play it
	plays    int    // how often it is played

	mu   sync.Mutex
	runs []report.Run
	late []string // what became of late writes, of each run
	// errors are those of the plays that broke off, retried says that one of them was played once more.
	errors  []error
	retried bool
}

// name is the scenario's for people: "H7 redis (replicas=1)".
func (b *board) name() string {
	name := b.scenario.hazard + " " + b.scenario.subject
	if b.scenario.variant != "" {
		name += " (" + b.scenario.variant + ")"
	}
	return name
}

func (b *board) add(run report.Run, late string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs, b.late = append(b.runs, run), append(b.late, late)
}

func (b *board) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, err)
}

// again says that a play which broke off, for this error, is played once more: the first one, whose error is told then, since a machine that is too busy for a
// moment should not cost a cell.
func (b *board) again(err error) bool {
	if errors.As(err, new(*servers.NotInstalled)) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retried {
		return false
	}
	b.retried, b.errors = true, append(b.errors, err)
	return true
}

// cell sums up the runs. It is not complete if there are none, nor a reason for that.
func (b *board) cell() (c report.Cell, complete bool) {
	s := b.scenario
	c = report.Cell{Hazard: s.hazard, Subject: s.subject, Variant: s.variant, Setup: s.setup, NotRun: b.reason}
	if s.lock != "" {
		x, err := exhibit(s.lock)
		if err != nil {
			c.NotRun = err.Error()
		}
		c.Lock = x.Is
	}
	switch {
	case c.NotRun != "":
		return c, true
	case len(b.runs) == 0 && len(b.errors) == 0:
		return c, false
	case len(b.runs) == 0:
		c.NotRun = "It could not be played: " + line(b.errors[0])
		return c, true
	}
	telling := 0 // the first of the worst class; among these one whose late write landed
	for i, run := range b.runs {
		c.Class = report.Worse(c.Class, run.Class)
		if run.Class == c.Class && (b.runs[telling].Class != c.Class || b.late[telling] != landed && b.late[i] == landed) {
			telling = i
		}
	}
	for _, run := range b.runs {
		if run.Class == c.Class && c.Class != report.Safe {
			c.Seen++
		}
	}
	c.Of, c.Runs = len(b.runs), b.runs
	c.Observed, c.LateWrite = b.runs[telling].Observed, b.late[telling]
	if slices.Contains(b.late, landed) {
		c.LateWrite = landed
	}
	if n := len(b.errors); n > 0 {
		c.Observed += fmt.Sprintf(" Plays that broke off: %d (%s).", n, line(b.errors[0]))
	}
	return c, true
}

// line is an error in one line.
func line(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
