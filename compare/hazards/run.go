// Package hazards plays what can go wrong with a distributed lock on real servers, and reports what was seen: fifteen hazards from articles, on every
// backend and on the lock of the article.
package hazards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// playsAtOnce limits concurrent plays, which mostly wait. startsAtOnce limits concurrent starts of environments.
const playsAtOnce, startsAtOnce = 24, 2

// Run plays hazards on servers that it starts and ends. match selects them by hazard ("H3") and subject ("redis"); what it rejects has no cell. progress
// is called when a play begins or ends, with how many have ended, by one goroutine at a time. Run returns the cells ordered by hazard and subject; cells
// that could not be played give the reason. It also returns each cell's missing server. A run takes about a minute. The program must have called
// [WorkerMain] first: each client is a process. When ctx ends, everything ends within seconds, and the error is ctx's cause, beside the played cells.
func Run(ctx context.Context, match func(hazard, subject string) bool, progress func(done, total int, what string)) ([]report.Cell, []report.Missing, error) {
	scenarios := slices.DeleteFunc(table(), func(s scenario) bool { return !match(s.Hazard, s.Subject) })
	return run(ctx, progress, scenarios, environment.All())
}

// run is Run for any scenarios and environments.
func run(ctx context.Context, progress func(done, total int, what string), scenarios []scenario, environments []environment.Environment) (all []report.Cell, missing []report.Missing, _ error) {
	r := &runner{ctx: ctx, progress: progress, starting: make(chan struct{}, startsAtOnce), free: make(chan struct{}, playsAtOnce)}
	var cells []*cell
	for _, s := range scenarios {
		cells = append(cells, &cell{scenario: s})
		r.total += s.Plays
	}
	var running sync.WaitGroup
	for i := range environments {
		here := slices.DeleteFunc(slices.Clone(cells), func(c *cell) bool { return c.Environment != environments[i].Name })
		if len(here) > 0 {
			running.Go(func() { r.playAll(&environments[i], here) })
		}
	}
	running.Wait()
	for _, c := range cells {
		if told := c.report(); told.Of > 0 || told.NotRun != "" {
			all = append(all, told)
		}
		if needed, ok := errors.AsType[*servers.NotInstalled](errors.Join(c.errors...)); ok {
			missing = append(missing, report.Missing{Subject: c.Subject, Program: needed.Program, Install: needed.Install})
		}
	}
	return all, missing, context.Cause(ctx)
}

type runner struct {
	ctx      context.Context
	progress func(done, total int, what string)
	// free and starting have an element for each play under way, and each environment that is starting.
	free, starting chan struct{}

	mu          sync.Mutex
	done, total int
}

func (r *runner) tell(ended int, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += ended
	r.progress(r.done, r.total, what)
}

// playAll starts an environment, plays all its cells, and ends it. Cells that harm the servers come last, one after another.
func (r *runner) playAll(e *environment.Environment, cells []*cell) {
	r.starting <- struct{}{}
	r.tell(0, "starting "+e.Title)
	running, err := e.Open(r.ctx)
	<-r.starting
	if err != nil {
		for _, c := range cells {
			c.add(report.Run{}, err)
			r.tell(c.Plays, c.ID())
		}
		return
	}
	defer func() { _ = running.Close() }()
	for _, harmful := range []bool{false, true} {
		var plays sync.WaitGroup
		for _, c := range cells {
			for n := range c.Plays {
				if c.Harmful != harmful {
					continue
				}
				plays.Go(func() { r.play(running, c, n) })
				if harmful {
					plays.Wait()
				}
			}
		}
		plays.Wait()
	}
}

// play plays a scenario for the n-th time. If the play breaks off, it plays once more: a busy machine should not cost a cell. Harm that was seen
// counts anyway.
func (r *runner) play(running *environment.Running, c *cell, n int) {
	r.free <- struct{}{}
	defer func() { <-r.free }()
	if r.ctx.Err() != nil {
		return
	}
	r.tell(0, c.ID())
	for range 2 {
		run, err := c.play(r.ctx, running, n)
		if r.ctx.Err() != nil {
			return // an interrupted play proves nothing
		}
		c.add(run, err)
		if err == nil {
			break
		}
	}
	r.tell(1, c.ID())
}

// play plays the scenario and judges it. An error says that the play broke off.
func (c *cell) play(ctx context.Context, running *environment.Running, n int) (report.Run, error) {
	played, err := play.Play(ctx, running, c.inEnvironment(running.Environment), uint64(n))
	if played == nil {
		return report.Run{}, err
	}
	if len(played.Stuck) > 0 {
		err = errors.Join(err, errors.New(played.Stuck[0]))
	}
	h, contradiction := history.NewHistory(played.Events)
	if contradiction != nil {
		return report.Run{}, errors.Join(err, contradiction)
	}
	return judge(h, played.Name), err
}

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
		broken = driver.OneLine(c.errors[0]).Error()
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
