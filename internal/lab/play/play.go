package play

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	process "github.com/lockport/lockport/internal/lab/worker"
)

const (
	// workers is the number of worker processes in a storm, and stormGoroutines the number of goroutines in each.
	workers, stormGoroutines = 4, 4
	// warmUp is the number of holds before the fault.
	warmUp = 8
	// phaseTime limits a phase.
	phaseTime = 3 * time.Minute
	// healTime limits the healing of the servers.
	healTime = time.Minute
	// settleTime is how long workers go on after the recovery. Clients retry clean-up once a second, and it must not hit a lock that somebody else
	// has by then.
	settleTime = 1200 * time.Millisecond
)

// Played is a finished phase.
type Played struct {
	Environment *environment.Environment
	Cell        *Cell
	Seed        uint64
	// Name is Phase.Name, the name of a script's lock.
	Name   string
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
	defer register.close()
	name := fmt.Sprintf("faults-%x-%x", seed, history.Now())
	s := &Phase{
		Environment: w, Cell: c, Ctx: ctx, TTL: cmp.Or(c.TTL, w.TTL), Rand: rand.New(rand.NewPCG(seed, 0)), register: register, changed: make(chan struct{}), name: name,
	}
	defer context.AfterFunc(caller, func() { // nobody waits for pending requests
		for _, worker := range s.Workers() {
			worker.Kill()
		}
	})()
	played := &Played{Environment: w.Environment, Cell: c, Seed: seed, Name: name}
	names := []string{name}
	if c.Script == nil {
		names = []string{name + "-a", name + "-b", name + "-shared", name + "-permits"}
		played.Stuck, err = s.storm(names)
	} else {
		err = errors.Join(c.Script.attempt(s), s.heal())
	}
	played.Stuck = append(played.Stuck, s.end()...)
	played.Events = s.Events()
	for _, name := range names {
		played.Lost += register.lost(name)
	}
	return played, err
}

// storm has workers work, injects the fault, and checks that all acquire again.
func (s *Phase) storm(names []string) (stuck []string, err error) {
	if err := s.startWorkers(names); err != nil {
		return nil, err
	}
	if err := s.holds(0, warmUp); err != nil {
		return nil, fmt.Errorf("before the fault: %w", err)
	}
	if err := s.Cell.Inject.attempt(s); err != nil {
		return nil, errors.Join(fmt.Errorf("the fault could not be injected: %w", err), s.heal())
	}
	if err := s.heal(); err != nil {
		return nil, err
	}
	if err := s.startWorkers(names); err != nil { // replace killed workers
		return nil, err
	}
	return s.recovered(), sleep(s.Ctx, settleTime)
}

// startWorkers starts the missing workers of a storm.
func (s *Phase) startWorkers(names []string) error {
	plans := make([]stormPlan, max(0, workers-len(s.Workers())))
	for i := range plans {
		plans[i] = stormPlan{Seed: s.Rand.Uint64(), Names: names, Goroutines: stormGoroutines, Lead: s.Cell.Lead}
	}
	return errors.Join(process.AtOnce(plans, func(_ int, plan stormPlan) error {
		w, err := s.start()
		if err == nil {
			_, err = w.ask(order{Do: doStorm, Storm: &plan})
		}
		return err
	})...)
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
	if !s.healed.Load() {
		s.Healed()
	}
	return err
}

// recovered waits until every worker has acquired a lock since the servers were healed, and names those that did not in time.
func (s *Phase) recovered() (stuck []string) {
	limit := Patience * s.Cell.RecoveryIn(s.Environment.Environment)
	from := s.Length()
	ctx, cancel := context.WithTimeoutCause(s.Ctx, limit, fmt.Errorf("%v after the fault", limit))
	defer cancel()
	for _, w := range s.Workers() {
		_, err := s.await(ctx, nil, from, func(e history.Event) bool { return e.Worker == w.Name && e.Kind == history.Got })
		if err != nil {
			stuck = append(stuck, fmt.Sprintf("worker %s has not acquired a lock %v", w.Name, err))
		}
	}
	return stuck
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
