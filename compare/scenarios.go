package compare

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
)

// plan says how long, and how often, costs are measured.
type plan struct {
	turns     int           // of cycles and of hand-offs
	cycleTime time.Duration // for each turn
	pingTime  time.Duration // for a turn of bare round trips
	handOffs  int           // per turn
	takeovers int           // kills
}

var (
	quick = plan{5, 150 * time.Millisecond, 50 * time.Millisecond, 20, 1}
	full  = plan{11, 400 * time.Millisecond, 100 * time.Millisecond, 50, 5}
)

const (
	mostCycles        = 2000                 // recorded cycles of a turn
	handOffPause      = 7 * time.Millisecond // least time of a hold in a hand-off
	takeoverProcesses = 4
	takeoverNames     = 10 // locks of a killed process; each is a sample
)

// scenario is one measurement of a subject.
type scenario struct {
	name    string
	measure func(*measurement, context.Context) error
}

var scenarios = []scenario{
	{"cycle", (*measurement).cycle},
	{"handoff", (*measurement).handOff},
	{"takeover", (*measurement).takeover},
}

type measurement struct {
	plan
	measure.Config
	names      string // prefix of its lock names
	costs      report.Costs
	roundTrips []float64 // of all turns, in µs
}

// alone measures subjects. Any failure is an error.
func alone(ctx context.Context, s measure.Scenario, all ...*measure.Subject) error {
	if err := s.Run(ctx, nil, all...); err != nil {
		return err
	}
	for _, on := range all {
		if len(on.Failed) > 0 {
			return errors.New(on.Failed[0])
		}
	}
	return nil
}

// inTurns measures locks in turns with bare round trips, if there is a bare request. A machine's speed varies, so ratios compare measurements of one
// turn.
func (m *measurement) inTurns(ctx context.Context, s measure.Scenario) (mine, bare measure.Row, err error) {
	on := &measure.Subject{Config: m.Config, Locks: m.names + s.Name}
	if m.costs.Question == "" {
		err = alone(ctx, s, on)
		return on.Row, bare, err
	}
	pings := &measure.Subject{
		Config: measure.Config{URL: m.URL, TTL: m.TTL, Library: pinging}, Locks: m.names,
		Floor: &measure.Scenario{Do: measure.Cycle, N: 1, Samples: mostCycles, For: m.pingTime},
	}
	err = alone(ctx, s, pings, on)
	m.roundTrips = append(m.roundTrips, pings.Samples["acquire"]...)
	return on.Row, pings.Row, err
}

// cycle measures one client that acquires and releases an uncontended lock.
func (m *measurement) cycle(ctx context.Context) error {
	s := measure.Scenario{Name: "cycle", Do: measure.Cycle, Turns: m.turns, N: 1, Samples: mostCycles, For: m.cycleTime}
	mine, bare, err := m.inTurns(ctx, s)
	if err == nil {
		m.costs.Cycle = report.Cycle{
			Acquire: report.QuantilesOf(mine.Samples["acquire"]), Release: report.QuantilesOf(mine.Samples["release"]),
			Ratio: report.SpreadOf(mine.Ratios(bare, "p50")),
		}
	}
	return err
}

// handOff measures two processes that take turns waiting for each other.
func (m *measurement) handOff(ctx context.Context) error {
	s := measure.Scenario{Name: "handoff", Do: measure.HandOff, Turns: m.turns, Processes: 2, Samples: m.handOffs, For: handOffPause}
	mine, bare, err := m.inTurns(ctx, s)
	if err == nil {
		m.costs.HandOff = report.HandOff{Time: report.QuantilesOf(mine.Samples["times"]), Ratio: report.SpreadOf(mine.Ratios(bare, "p50"))}
	}
	return err
}

// takeover measures how long the locks of a killed process stay taken.
func (m *measurement) takeover(ctx context.Context) error {
	on := &measure.Subject{Config: m.Config, Locks: m.names + "takeover"}
	err := alone(ctx, measure.Scenario{Do: measure.Takeover, Turns: m.takeovers, Processes: takeoverProcesses, N: takeoverNames}, on)
	if err == nil {
		m.costs.Takeover = report.Takeover{Time: report.QuantilesOf(on.Samples["times"])}
	}
	return err
}
