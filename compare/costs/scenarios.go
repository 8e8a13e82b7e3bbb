package costs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
)

// plan is how long, and how often, things are measured.
type plan struct {
	turns       int           // of cycles and of hand-offs
	cycleTime   time.Duration // of a turn
	pingTime    time.Duration // of a turn of bare round trips
	handOffs    int           // in a turn
	clients     []int         // of contention
	contentions int           // turns of it
	contendTime time.Duration
	takeovers   int   // kills
	waiters     []int // goroutines
	waitTime    time.Duration
}

var quick = plan{
	5, 150 * time.Millisecond, 50 * time.Millisecond, 20, []int{2, 8, 64}, 3, 500 * time.Millisecond, 1, []int{1, 30}, 2 * time.Second,
}

var full = plan{
	11, 400 * time.Millisecond, 100 * time.Millisecond, 50, []int{2, 4, 8, 16, 32, 64}, 5, 800 * time.Millisecond, 5, []int{1, 30, 300}, 3 * time.Second,
}

const (
	processes     = 4                    // of clients, at most
	mostCycles    = 2000                 // that are noted of a turn
	handOffPause  = 7 * time.Millisecond // how long a hold of the hand-off lasts at least
	takeoverNames = 10                   // locks of a process that is killed: a sample each
	waitProcesses = 3                    // over which waiters are spread
	// lastHoldTime is how long the last holds of a turn may take to come. Nobody gives up before: that would cost the server something that is not measured.
	lastHoldTime = 20 * time.Second
)

type scenario struct {
	name    string
	measure func(*measurement, context.Context) error
}

// scenarios are what is measured of each subject, in this order.
var scenarios = []scenario{
	{"cycle", (*measurement).cycle},
	{"contention", (*measurement).contention},
	{"handoff", (*measurement).handOff},
	{"takeover", (*measurement).takeover},
	{"waiters", (*measurement).waiters},
}

// measurement is that of one subject.
type measurement struct {
	plan
	measure.Config
	names      string // what the names of its locks begin with
	costs      report.Costs
	roundTrips []float64 // of all turns, in microseconds
}

// on are locks of c that are measured.
func (m *measurement) on(c measure.Config, names string) *measure.Subject {
	return &measure.Subject{Config: c, Locks: m.names + names}
}

// alone has subjects measured. Any failure is an error.
func alone(ctx context.Context, s measure.Scenario, on *measure.Subject, others ...*measure.Subject) error {
	s.Strict = true
	if err := s.Run(ctx, nil, append(others, on)...); err != nil {
		return err
	}
	for _, on := range append(others, on) {
		if len(on.Failed) > 0 {
			return errors.New(on.Failed[0])
		}
		if on.NotRun != "" {
			return notRun(on.NotRun)
		}
	}
	return nil
}

// inTurns has locks measured in turns with bare round trips, where a bare question can be asked.
func (m *measurement) inTurns(ctx context.Context, s measure.Scenario) (mine, bare measure.Row, err error) {
	on := m.on(m.Config, s.Name)
	if m.costs.Question = question(m.URL); m.costs.Question == "" {
		err = alone(ctx, s, on)
		return on.Row, bare, err
	}
	pings := m.on(measure.Config{URL: m.URL, TTL: m.TTL, Library: pinging}, "")
	pings.Floor = &measure.Scenario{Do: measure.Cycle, N: 1, Samples: mostCycles, For: m.pingTime}
	err = alone(ctx, s, on, pings)
	m.roundTrips = append(m.roundTrips, pings.Samples["acquire"]...)
	return on.Row, pings.Row, err
}

// cycle measures one client that acquires and releases a lock that nobody else wants.
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

// contention measures many clients, of several processes, that take one lock as fast as they can.
func (m *measurement) contention(ctx context.Context) error {
	var all []report.Contention
	for _, n := range m.clients {
		c := report.Contention{Clients: n, Processes: min(processes, n)}
		mine, bare, err := m.inTurns(ctx, measure.Scenario{
			Name: fmt.Sprint("contention-", n), Do: measure.Contend, Turns: m.contentions, Processes: c.Processes, N: n, For: m.contendTime, Grace: lastHoldTime,
		})
		if err != nil {
			return err
		}
		c.PerSecond, c.Wait = report.SpreadOf(mine.Figure("acquisitions").Each), report.QuantilesOf(mine.Samples["waits"])
		c.Ratio = report.SpreadOf(mine.Against("acquisitions", bare, "p50", func(perSecond, trip float64) float64 { return 1e6 / perSecond / trip }))
		for _, n := range mine.Figure("overlaps").Each {
			c.Overlaps += int(n)
		}
		all = append(all, c)
	}
	m.costs.Contention = all
	return nil
}

// handOff measures two processes that wait for each other in turn.
func (m *measurement) handOff(ctx context.Context) error {
	s := measure.Scenario{Name: "handoff", Do: measure.HandOff, Turns: m.turns, Processes: 2, Samples: m.handOffs, For: handOffPause}
	mine, bare, err := m.inTurns(ctx, s)
	if err == nil {
		m.costs.HandOff = report.HandOff{Time: report.QuantilesOf(mine.Samples["times"]), Ratio: report.SpreadOf(mine.Ratios(bare, "p50"))}
	}
	return err
}

// takeover measures how long the locks of a process that is killed stay taken.
func (m *measurement) takeover(ctx context.Context) error {
	on := m.on(m.Config, "takeover")
	err := alone(ctx, measure.Scenario{Do: measure.Takeover, Turns: m.takeovers, Processes: processes, N: takeoverNames}, on)
	if err == nil {
		m.costs.Takeover = report.Takeover{Time: report.QuantilesOf(on.Samples["times"])}
	}
	return err
}

// waiters measures what waiters for a lock that somebody has cost the servers. Each number of them waits for a name of its own, all at the same time:
// requests are counted, and nobody is in anybody's way.
func (m *measurement) waiters(ctx context.Context) error {
	var crowds []report.Waiters
	for _, n := range m.plan.waiters {
		crowds = append(crowds, report.Waiters{Waiters: n, Processes: min(n, waitProcesses)})
	}
	errs := make([]error, len(crowds))
	var all sync.WaitGroup
	for i := range crowds {
		crowd := &crowds[i]
		on := m.on(m.Config, fmt.Sprint("waiters-", i))
		all.Go(func() {
			s := measure.Scenario{Do: measure.Wait, Turns: 1, Processes: crowd.Processes, N: crowd.Waiters, For: m.waitTime}
			if errs[i] = alone(ctx, s, on); errs[i] == nil {
				crowd.PerSecond = on.Figure("requests").Each[0]
			}
		})
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil {
		m.costs.Waiters = crowds
	}
	return err
}
