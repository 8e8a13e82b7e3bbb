package measure

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/worker"
)

// Scenario says what to measure, and how. Do determines which fields matter.
type Scenario struct {
	Name, Title string
	// Do measures a subject once: [Cycle], [Contend], [HandOff], [Takeover], [Wait] or [Hold].
	Do        func(ctx context.Context, s Scenario, on *Subject, turn int) ([]Figure, error)
	Turns     int
	Processes int           // number of worker processes
	N         int           // number of goroutines in all processes, the same in each, or of locks
	Samples   int           // at most, in a turn
	For       time.Duration // of a turn; HandOff: the shortest hold
	Shared    bool          // Cycle: holders of one name, which do not exclude each other
	Grace     time.Duration // how long after the end a client still waits for a hold
	Limit     time.Duration // of a turn, since some libraries hang; 0: none
}

// Subject is a library on its servers. Use a subject in one scenario only.
type Subject struct {
	Row    // what was measured
	Config Config
	Locks  string // the prefix of its locks' names
	Try    bool   // cycles make single attempts

	workers worker.Group[order, answer] // nil until the scenario starts them
}

// Run measures subjects in turns. Each turn measures every subject, starting with a different one. So a temporary disturbance of the machine
// affects all of them. A subject that fails gets new workers in its next turn. Run returns no error except ctx's. progress may be nil.
func (s Scenario) Run(ctx context.Context, progress func(turn int, on *Subject), subjects ...*Subject) error {
	for turn := range s.Turns {
		for i := range subjects {
			on := subjects[(i+turn)%len(subjects)]
			if ctx.Err() != nil {
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
	}
	return ctx.Err()
}

func (on *Subject) turn(ctx context.Context, s Scenario, turn int) {
	if s.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Limit)
		defer cancel()
	}
	figures, err := s.Do(ctx, s, on, turn)
	if err != nil {
		on.close()
		on.Failed = append(on.Failed, fmt.Sprintf("turn %d: %v", turn+1, driver.OneLine(err)))
		return
	}
	on.Add(turn, figures...)
}

// keep adds samples of a kind.
func (on *Subject) keep(kind string, samples []float64) {
	if on.Samples == nil {
		on.Samples = make(map[string][]float64)
	}
	on.Samples[kind] = append(on.Samples[kind], samples...)
}

// start starts n workers and has them warm up, unless an earlier turn has done so.
func (on *Subject) start(ctx context.Context, n int, warmUp func() error) (err error) {
	if on.workers == nil {
		if on.workers, err = kind.StartAll(ctx, on.Config, n); err == nil {
			err = warmUp()
		}
	}
	return err
}

// close makes the workers release their holds, and returns when they have ended.
func (on *Subject) close() {
	on.workers.Close()
	on.workers = nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Row is what was measured of one library in one scenario.
type Row struct {
	Library, Kind string
	// Turns are the numbers of the measured turns, from 0.
	Turns   []int    `json:",omitempty"`
	Figures []Figure `json:",omitempty"`
	// Failed says what happened in the missing turns.
	Failed []string `json:",omitempty"`
	// Samples are the single measurements of all turns, by kind.
	Samples map[string][]float64 `json:"-"`
}

// Figure is one quantity, with its value in each turn.
type Figure struct {
	Name, Unit string
	Each       []float64 // one for each of the row's turns
}

// figure returns a figure of one turn.
func figure(name, unit string, v float64) Figure { return Figure{name, unit, []float64{v}} }

// Add adds a turn's figures to a row. Every turn must have the same figures. Five digits are kept, more than any run can distinguish.
func (r *Row) Add(turn int, figures ...Figure) {
	r.Turns = append(r.Turns, turn)
	for _, f := range figures {
		v, _ := strconv.ParseFloat(strconv.FormatFloat(f.Each[0], 'g', 5, 64), 64)
		i := slices.IndexFunc(r.Figures, func(other Figure) bool { return f.Name == other.Name })
		if i < 0 {
			i, f.Each = len(r.Figures), nil
			r.Figures = append(r.Figures, f)
		}
		r.Figures[i].Each = append(r.Figures[i].Each, v)
	}
}

// Figure returns the row's figure of that name, or an empty one.
func (r Row) Figure(name string) (f Figure) {
	if i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name }); i >= 0 {
		f = r.Figures[i]
	}
	return f
}
