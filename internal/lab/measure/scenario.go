package measure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/worker"
)

// Scenario says what is measured, and how. Which fields count depends on Do.
type Scenario struct {
	Name, Title string
	// Do measures a subject once: [Cycle], [Contend], [HandOff], [Takeover], [Wait] or [Hold].
	Do        func(ctx context.Context, s Scenario, on *Subject, turn int) ([]Figure, error)
	Turns     int
	Processes int           // that take part
	N         int           // goroutines of all processes, or locks
	Samples   int           // of a turn, at most
	For       time.Duration // how long a turn lasts, or a hold of a hand-off at least
	Grace     time.Duration // how much longer a client waits for a hold that it asked for in time
	TTL       time.Duration // 0: that of the subject's configuration
	Limit     time.Duration // how long a turn may take: some libraries hang. 0: any time
	Count     bool          // of cycles, requests are counted
}

// Subject is a library on servers. One subject takes part in one scenario.
type Subject struct {
	Row    // what was measured
	Config Config
	Locks  string    // the beginning of its locks' names
	Floor  *Scenario // what is measured of it instead of the scenario: bare round trips
	Try    bool      // cycles make single attempts
	Kill   bool      // waiters are killed in the end, since some libraries do not notice that nobody wants to wait any more
	// Load, if not nil, tells the processor time and the memory of the servers.
	Load func() (cpu time.Duration, memory int64)

	workers worker.Group[order, answer] // nil until the scenario starts them
}

// Run measures subjects in turns. In each turn every subject has a go, beginning with another one each time. What disturbs the machine for a while thus
// disturbs all of them. A subject that fails begins anew in its next turn. The only error is ctx's. progress may be nil.
func (s Scenario) Run(ctx context.Context, progress func(turn int, on *Subject), subjects ...*Subject) error {
	for turn := range s.Turns {
		for i := range subjects {
			on := subjects[(i+turn)%len(subjects)]
			if ctx.Err() != nil || on.NotRun != "" {
				continue
			}
			if progress != nil {
				progress(turn, on)
			}
			on.turn(ctx, s, turn)
		}
	}
	for _, on := range subjects {
		on.close()
		if len(on.Turns) == 0 && on.NotRun == "" {
			on.NotRun = "it failed in every turn"
		}
	}
	return ctx.Err()
}

func (on *Subject) turn(ctx context.Context, s Scenario, turn int) {
	if on.Floor != nil {
		s = *on.Floor
	}
	if s.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Limit)
		defer cancel()
	}
	figures, err := s.Do(ctx, s, on, turn)
	switch {
	case errors.Is(err, ErrNotCounted):
		on.NotRun = err.Error()
	case err != nil:
		on.close()
		on.Failed = append(on.Failed, fmt.Sprintf("turn %d: %s", turn+1, strings.Join(strings.Fields(err.Error()), " ")))
	default:
		on.Add(turn, figures...)
	}
}

// keep adds to the samples of a kind.
func (on *Subject) keep(kind string, samples []float64) {
	if on.Samples == nil {
		on.Samples = make(map[string][]float64)
	}
	on.Samples[kind] = append(on.Samples[kind], samples...)
}

func (on *Subject) config(s Scenario) Config {
	c := on.Config
	if s.TTL > 0 {
		c.TTL = s.TTL
	}
	return c
}

// start starts n workers, unless they are there from an earlier turn.
func (on *Subject) start(ctx context.Context, s Scenario, n int) (fresh bool, err error) {
	if on.workers == nil {
		on.workers, err = kind.StartAll(ctx, on.config(s), n)
		fresh = true
	}
	return fresh, err
}

// close has the workers release what they hold, and returns when they have ended.
func (on *Subject) close() {
	on.workers.Close()
	on.workers = nil
}

// load is what the servers have used until now.
func (on *Subject) load() (cpu time.Duration, memory int64) {
	if on.Load == nil {
		return 0, 0
	}
	return on.Load()
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sleep ends early with ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
