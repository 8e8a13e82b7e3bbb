package hazards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Options are what a run plays. The zero value is a quick run of everything.
type Options struct {
	// Full plays three times as often, and what takes longer.
	Full bool
	// Match says what is played, by hazard ("H3") and subject ("redis"); nil: everything. What is not has no cell.
	Match func(hazard, subject string) bool
	// Progress is called when a play begins, with how many have ended, and when one ends; by one goroutine at a time. nil: nobody.
	Progress func(done, total int, what string)
}

// fullPlays is how many times as often a full run plays a scenario.
const fullPlays = 3

// forFull says why a quick run has not played something.
const forFull = report.OnlyFull

// Run plays hazards on servers that it starts for that and ends again, and returns a cell for each, in the order of the hazards and subjects: also for those that
// could not be played, with the reason; and what would have to be installed. It takes about a minute, and several if o.Full. The program must have called
// [WorkerMain] first, since each client is a process of its own. When ctx ends, so does everything within seconds, and the error is ctx's cause; the
// cells are then those that were played.
func Run(ctx context.Context, o Options) ([]report.Cell, []report.Missing, error) {
	return run(ctx, o, table(), environment.All())
}

// run is Run for any table and arrangements.
func run(ctx context.Context, o Options, scenarios []scenario, arrangements []environment.Environment) ([]report.Cell, []report.Missing, error) {
	r := &runner{ctx: ctx, progress: o.Progress, starting: make(chan struct{}, startsAtOnce), free: make(chan struct{}, playsAtOnce)}
	var boards []*board
	for i := range scenarios {
		s := &scenarios[i]
		if o.Match != nil && !o.Match(s.hazard, s.subject) {
			continue
		}
		b := &board{scenario: s, reason: s.notRun, plays: max(1, s.plays)}
		if o.Full {
			b.plays *= fullPlays
		} else if s.full {
			b.reason = forFull
		}
		boards = append(boards, b)
	}
	all, running := stages(boards, arrangements), sync.WaitGroup{}
	for _, b := range boards {
		if b.reason == "" {
			r.total += b.plays
		}
	}
	for _, s := range all {
		if s.slow() {
			select {
			case r.starting <- struct{}{}:
			case <-ctx.Done():
				continue
			}
		}
		running.Go(func() { r.stage(s) })
	}
	running.Wait()
	var cells []report.Cell
	for _, b := range boards {
		if c, complete := b.cell(); complete {
			cells = append(cells, c)
		}
	}
	if ctx.Err() != nil {
		return cells, r.missing, context.Cause(ctx)
	}
	return cells, r.missing, nil
}

const (
	// playsAtOnce is how many plays are under way at the same time, which mostly wait for time to pass; startsAtOnce is how many slow arrangements are
	// being started, which work.
	playsAtOnce, startsAtOnce = 16, 2
	// startTime is how long an arrangement may take to start.
	startTime = 2 * time.Minute
)

// stage is servers, and what is played on them.
type stage struct {
	arrangement *environment.Environment
	boards      []*board
}

// slow says that the servers take long to start, and much work.
func (s *stage) slow() bool { return slices.Contains(slow, s.arrangement.Name) }

// slow are the arrangements that take longest to start, the slowest first.
var slow = []string{"zookeeper", "etcd", "postgres-failover", "mysql", "postgres", "zookeeper-alone", "etcd-alone", "redis-sentinel"}

// stages are what must be started: what starts at once, and then the slowest first. They are servers for all that can be played side by side, and for those that need
// them alone, some more where that costs little.
func stages(boards []*board, arrangements []environment.Environment) []*stage {
	var all []*stage
	for i := range arrangements {
		a := &arrangements[i]
		shared := &stage{arrangement: a}
		var alone []*board
		for _, b := range boards {
			switch {
			case b.reason != "" || b.scenario.world != a.Name:
			case b.scenario.alone:
				alone = append(alone, b)
			default:
				shared.boards = append(shared.boards, b)
			}
		}
		if slices.Contains(slow, a.Name) {
			shared.boards = append(shared.boards, alone...)
		} else {
			for some := range slices.Chunk(alone, 2) {
				all = append(all, &stage{a, some})
			}
		}
		if len(shared.boards) > 0 {
			all = append(all, shared)
		}
	}
	for _, b := range boards {
		if b.reason == "" && !slices.ContainsFunc(all, func(s *stage) bool { return slices.Contains(s.boards, b) }) {
			b.reason = "There is no arrangement of servers called " + b.scenario.world + "."
		}
	}
	slices.SortStableFunc(all, func(a, b *stage) int { // -1, and so first, is what is not slow
		return cmp.Compare(slices.Index(slow, a.arrangement.Name), slices.Index(slow, b.arrangement.Name))
	})
	return all
}

// runner runs plays. Fields below mu are guarded by it.
type runner struct {
	ctx      context.Context
	progress func(done, total int, what string)
	// They have an element for each play that is under way, and each slow arrangement that is being started.
	free, starting chan struct{}

	mu          sync.Mutex
	done, total int
	missing     []report.Missing
}

// tell tells of progress: that so many more plays have ended.
func (r *runner) tell(ended int, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += ended
	if r.progress != nil {
		r.progress(r.done, r.total, what)
	}
}

// stage starts servers, has everything played on them, and ends them.
func (r *runner) stage(s *stage) {
	r.tell(0, "starting "+s.arrangement.Title)
	starting, cancel := context.WithTimeout(r.ctx, startTime)
	defer cancel()
	w, err := s.arrangement.Open(starting)
	if s.slow() {
		<-r.starting
	}
	if err != nil {
		for _, b := range s.boards {
			r.fails(b, err)
			r.tell(b.plays, b.name())
		}
		return
	}
	defer func() { _ = w.Close() }()
	var together sync.WaitGroup
	for _, b := range s.boards {
		if b.scenario.alone {
			continue
		}
		for n := range b.plays {
			together.Go(func() { r.play(w, b, n) })
		}
	}
	together.Wait()
	for _, b := range s.boards {
		if b.scenario.alone {
			for n := range b.plays {
				r.play(w, b, n)
			}
		}
	}
}

// play plays a scenario for the n-th time.
func (r *runner) play(w *environment.Running, b *board, n int) {
	select {
	case r.free <- struct{}{}:
		defer func() { <-r.free }()
	case <-r.ctx.Done():
		return
	}
	r.tell(0, b.name())
	result, late, err := b.play(r.ctx, w, n)
	if err != nil && r.ctx.Err() == nil && b.again(err) {
		first, firstLate := result, late
		result, late, err = b.play(r.ctx, w, n)
		if report.Harmful(first.Class) && !report.Harmful(result.Class) && r.ctx.Err() == nil {
			b.add(first, firstLate)
		}
	}
	if r.ctx.Err() != nil {
		return // what was cut short says nothing
	}
	if err != nil {
		r.fails(b, err)
	}
	if err == nil || report.Harmful(result.Class) {
		b.add(result, late)
	}
	r.tell(1, b.name())
}

// fails keeps why a play could not be, and what would have to be installed for it.
func (r *runner) fails(b *board, err error) {
	b.fail(err)
	missing := new(servers.NotInstalled)
	if !errors.As(err, &missing) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.missing, func(m report.Missing) bool { return m.Program == missing.Program })
	if i < 0 {
		i = len(r.missing)
		r.missing = append(r.missing, report.Missing{Program: missing.Program, Install: missing.Install})
	}
	if !slices.Contains(r.missing[i].Subjects, b.scenario.subject) {
		r.missing[i].Subjects = append(r.missing[i].Subjects, b.scenario.subject)
	}
}

// play plays the scenario on the servers of w, and judges it. An error says that it could not be played to its end: harm that was seen until then was seen
// all the same, but nothing else counts.
func (b *board) play(ctx context.Context, w *environment.Running, n int) (report.Run, string, error) {
	p := &trial{}
	cell := &play.Cell{Fault: b.scenario.hazard, Script: func(playing context.Context, phase *play.Phase) error {
		err := p.run(playing, phase, b.scenario.script)
		if ctx.Err() != nil { // nobody waits for what is under way
			for _, worker := range phase.Workers() {
				_ = worker.Kill()
			}
		}
		return err
	}}
	played, err := play.Play(ctx, b.scenario.worldOf(ctx, w), cell, b.seed(n))
	if err == nil && len(played.Stuck) > 0 {
		err = errors.New(played.Stuck[0])
	}
	if p.Phase == nil {
		return report.Run{}, "", err
	}
	h, broken := newHistory(played.Events)
	if broken != nil {
		return report.Run{}, "", errors.Join(err, broken)
	}
	v := judge(h, p)
	return timeline(h, p, &v), v.late, err
}

// seed decides what chance decides in the n-th play, which is the same in each run.
func (b *board) seed(n int) uint64 {
	hash := fnv.New64a()
	fmt.Fprint(hash, b.name(), n)
	return hash.Sum64() >> 16
}
