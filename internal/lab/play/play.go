// Package play runs phases: worker processes hold locks in an environment while a fault is injected, or follow a script through one interleaving. The
// result is a history, which others judge. Package play names no backend: the program must import those that its workers open.
package play

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
	process "github.com/lockport/lockport/internal/lab/worker"
)

const (
	// phaseTime limits a phase.
	phaseTime = 3 * time.Minute
	// healTime limits the healing of the servers.
	healTime = time.Minute
	// Patience is how many times the stated time a test waits: machines are noisy.
	Patience = 10
)

// Played is a finished phase.
type Played struct {
	Environment *environment.Environment
	Cell        *Cell
	Seed        uint64
	// Name is the name of a script's lock.
	Name string
	// Storm says that the script was a [Storm].
	Storm  bool
	Events []history.Event
	// Lost counts updates that the register accepted and later lost.
	Lost int64
	// Stuck names the workers that did not get a lock in time after the fault, and those that did not end.
	Stuck []string
}

// Play runs a phase of a cell of w. The seed decides the choices of the scheduler and the workers. An error says that the phase could not be run; the
// result still has what the locks did. When caller ends, the workers are killed.
func Play(caller context.Context, w *environment.Running, c *Cell, seed uint64) (*Played, error) {
	ctx, cancel := context.WithTimeoutCause(caller, phaseTime, fmt.Errorf("the phase took longer than %v", phaseTime))
	defer cancel()
	register, err := newRegister()
	if err != nil {
		return nil, err
	}
	defer register.Close()
	s := &Phase{
		Environment: w, Cell: c, Ctx: ctx, TTL: cmp.Or(c.TTL, w.TTL), Rand: rand.New(rand.NewPCG(seed, 0)), register: register, changed: make(chan struct{}),
		Name: fmt.Sprintf("faults-%x-%x", seed, history.Now()),
	}
	defer context.AfterFunc(caller, func() { // nobody waits for pending requests
		for _, worker := range s.Workers() {
			worker.Kill()
		}
	})()
	err = errors.Join(c.Script.attempt(s), s.heal())
	var stuck []string
	if err == nil && s.storm {
		err = Act(func(*Phase) { stuck = s.recovers() }).attempt(s)
	}
	stuck = append(stuck, s.end()...)
	return &Played{w.Environment, c, seed, s.Name, s.storm, s.Events(), register.lost(), stuck}, err
}

// heal ends every fault of workers, links and servers. It also runs when the phase's time is over: the next phase needs the servers.
func (s *Phase) heal() error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(s.Ctx), healTime, fmt.Errorf("healing took longer than %v", healTime))
	defer cancel()
	var err error
	for _, w := range s.Workers() {
		err = errors.Join(err, w.resume())
		w.Endpoint.Links.Each((*faultproxy.Proxy).Restore)
	}
	if !s.Cell.Harmless {
		if failed := s.Environment.Heal(ctx); failed != nil {
			err = errors.Join(err, fmt.Errorf("the servers could not be healed: %w", failed))
		}
	}
	s.Healed()
	return err
}

// end ends all workers, and names those that did not end.
func (s *Phase) end() (stuck []string) {
	for _, err := range process.AtOnce(s.workers, func(_ int, w *Worker) error { return w.end() }) {
		if err != nil {
			stuck = append(stuck, err.Error())
		}
	}
	for _, w := range s.workers {
		w.Endpoint.Links.Close()
	}
	return stuck
}

// Each plays the cells of one environment: first the harmless ones, side by side, because each worker has its own links and locks. Then it plays the
// others, one after another. free has an element for each play under way.
func Each[C any](cells []C, harmless func(C) bool, free chan struct{}, play func(C)) {
	for _, sideBySide := range []bool{true, false} {
		var running sync.WaitGroup
		for _, c := range cells {
			if harmless(c) == sideBySide {
				free <- struct{}{}
				running.Go(func() { play(c); <-free })
			}
			if !sideBySide {
				running.Wait()
			}
		}
		running.Wait()
	}
}

// Cell is a fault that can happen in an environment, and its stated outcome.
type Cell struct {
	// Fault is its name: "holder-killed", "leader-paused".
	Fault string
	// Outcome is the stated outcome. [report.Fenced]: two can believe they hold the lock, but their tokens rise, so a fence refuses the older one.
	Outcome report.Class
	// Why is one sentence for people: the reason, or what happens.
	Why string
	// Script is a [Storm] in which the fault is injected, or leads workers through one interleaving. It takes all choices from Rand, so a seed
	// replays them. Play restores what stays broken. With [report.Unavailable] the script calls Away and Back.
	Script Act
	// Belief is how long Both lets an overlap last, so that people see it. Scripts then do not wait until the older holder knows of its loss.
	Belief time.Duration
	// TTL overrides the environment's TTL of locks, and URL maps an endpoint's URL to the one that workers open.
	TTL time.Duration
	URL func(endpoint string) string
	// Harmless says that the fault affects only workers and their network. The servers need no healing, and other phases can use them meanwhile.
	Harmless bool
	// Lead has the workers of a storm campaign as leaders instead of acquiring locks.
	Lead bool
	// Tries is within how many plays of an unsafe cell two workers must be seen to believe they hold the lock; 0 means 1. If one play may miss it,
	// the probability that all miss it must be below 10⁻⁶.
	Tries int
	// Argued says that an unsafe outcome is stated by argument: the overlap is not asserted.
	Argued bool
	// Gone says that the server may end claims at the moment of the fault, as when a session is killed or the server restarts. The linearizability
	// check lets claims expire from then on.
	Gone bool
}
