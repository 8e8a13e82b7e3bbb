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
func run(ctx context.Context, progress func(done, total int, what string), scenarios []scenario, environments []environment.Environment) (cells []report.Cell, missing []report.Missing, _ error) {
	r := &runner{ctx: ctx, progress: progress, starting: make(chan struct{}, startsAtOnce), free: make(chan struct{}, playsAtOnce)}
	on := make(map[string][]*scenario) // by environment
	for i := range scenarios {
		if s := &scenarios[i]; s.NotRun == "" {
			on[s.Environment] = append(on[s.Environment], s)
			r.total++
		}
	}
	var running sync.WaitGroup
	for i := range environments {
		if e := &environments[i]; len(on[e.Name]) > 0 {
			running.Go(func() { r.playAll(e, on[e.Name]) })
		}
	}
	running.Wait()
	for _, s := range scenarios {
		switch {
		case s.err != nil && s.Class == "":
			s.NotRun = "It could not be played: " + driver.OneLine(s.err).Error()
		case s.err != nil:
			s.Observed += fmt.Sprintf(" A play broke off: %v.", driver.OneLine(s.err))
		}
		if s.Class != "" || s.NotRun != "" { // not interrupted
			cells = append(cells, s.Cell)
		}
		if needed, ok := errors.AsType[*servers.NotInstalled](s.err); ok {
			missing = append(missing, report.Missing{Subject: s.Subject, Program: needed.Program, Install: needed.Install})
		}
	}
	return cells, missing, context.Cause(ctx)
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

// playAll starts an environment, plays all its scenarios, and ends it.
func (r *runner) playAll(e *environment.Environment, scenarios []*scenario) {
	r.starting <- struct{}{}
	r.tell(0, "starting "+e.Title)
	running, err := e.Open(r.ctx)
	<-r.starting
	if err != nil {
		for _, s := range scenarios {
			s.err = err
			r.tell(1, s.ID())
		}
		return
	}
	defer func() { _ = running.Close() }()
	play.Each(scenarios, func(s *scenario) bool { return !s.Harmful }, r.free, func(s *scenario) { r.play(running, s) })
}

// play plays a scenario. If the play breaks off, only observed harm counts, and it plays once more: a busy machine should not cost a cell.
func (r *runner) play(running *environment.Running, s *scenario) {
	if r.ctx.Err() != nil {
		return
	}
	r.tell(0, s.ID())
	for range 2 {
		run, err := s.play(r.ctx, running)
		if r.ctx.Err() != nil {
			return // an interrupted play proves nothing
		}
		if report.Compare(run.Class, s.Class) > 0 && (err == nil || !run.Class.IsSafe()) {
			s.Run = run
		}
		if err == nil {
			break
		}
		s.err = err
	}
	r.tell(1, s.ID())
}

// play plays the scenario and judges it. An error says that the play broke off.
func (s *scenario) play(ctx context.Context, running *environment.Running) (report.Run, error) {
	played, err := play.Play(ctx, running, s.inEnvironment(running.Environment), 0)
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
