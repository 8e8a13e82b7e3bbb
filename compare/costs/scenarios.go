package costs

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	failovers   int   // kills
	waiters     []int // goroutines
	waitTime    time.Duration
}

var quick = plan{
	5, 150 * time.Millisecond, 50 * time.Millisecond, 20, []int{2, 8, 64}, 3, 500 * time.Millisecond, 1, 1, []int{1, 30}, 2 * time.Second,
}

var full = plan{
	11, 400 * time.Millisecond, 100 * time.Millisecond, 50, []int{2, 4, 8, 16, 32, 64}, 5, 800 * time.Millisecond, 5, 5, []int{1, 30, 300}, 3 * time.Second,
}

const (
	processes     = 4                    // of clients, at most
	mostCycles    = 2000                 // that are noted of a turn
	handOffPause  = 7 * time.Millisecond // how long a hold of the hand-off lasts at least
	takeoverNames = 10                   // locks of a process that is killed: a sample each
	waitProcesses = 3                    // over which waiters are spread
	mostSpinning  = 30                   // waiters that may poll: more would be in each other's way
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
	{"failover", (*measurement).failover}, // the last: it changes the servers
}

// measurement is that of one subject.
type measurement struct {
	plan
	measure.Config
	subject    subject
	stage      *stage
	names      string // what the names of its locks begin with
	costs      report.Costs
	pinger     *measure.Workers // makes bare round trips; nil before the first of them, and where there are none
	roundTrips []float64        // of all turns, in microseconds
}

func (m *measurement) close() {
	if m.pinger != nil {
		m.pinger.Close()
	}
}

// ping makes a turn of bare round trips. There are none where no bare question can be asked.
func (m *measurement) ping(ctx context.Context) (_ []float64, err error) {
	if m.costs.Question = question(m.URL); m.costs.Question == "" {
		return nil, nil
	}
	if m.pinger == nil {
		c := m.Config
		c.Library = pinging
		if m.pinger, err = measure.Start(ctx, c, 1); err != nil {
			return nil, err
		}
	}
	c, err := m.pinger.Cycle(ctx, measure.CycleOptions{Goroutines: 1, Most: mostCycles, For: m.pingTime})
	m.roundTrips = append(m.roundTrips, c.Acquire...)
	return c.Acquire, err
}

// inTurns has n figures measured, each between turns of bare round trips, and returns the ratios of the figures to these.
func (m *measurement) inTurns(ctx context.Context, n int, measure func(turn int) (float64, error)) (ratios []float64, err error) {
	before, err := m.ping(ctx)
	for turn := 0; err == nil && turn < n; turn++ {
		var figure float64
		if figure, err = measure(turn); err != nil {
			break
		}
		var after []float64
		if after, err = m.ping(ctx); len(after) > 0 {
			ratios = append(ratios, figure/median(slices.Concat(before, after)))
		}
		before = after
	}
	return ratios, err
}

func median(samples []float64) float64 { return report.SpreadOf(samples).Median }

// cycle measures one client that acquires and releases a lock that nobody else wants.
func (m *measurement) cycle(ctx context.Context) error {
	w, err := measure.Start(ctx, m.Config, 1)
	if err != nil {
		return err
	}
	defer w.Close()
	o := measure.CycleOptions{Name: m.names + "cycle", Goroutines: 1, Most: 20, For: m.cycleTime}
	if _, err := w.Cycle(ctx, o); err != nil { // the first cycles connect, and have a server read its scripts
		return err
	}
	o.Most = mostCycles
	var acquires, releases []float64
	ratios, err := m.inTurns(ctx, m.turns, func(int) (float64, error) {
		c, err := w.Cycle(ctx, o)
		acquires, releases = append(acquires, c.Acquire...), append(releases, c.Release...)
		return median(c.Both), err
	})
	if err == nil {
		m.costs.Cycle = &report.Cycle{Acquire: report.QuantilesOf(acquires), Release: report.QuantilesOf(releases), Ratio: report.SpreadOf(ratios)}
	}
	return err
}

// contention measures many clients, of several processes, that take one lock as fast as they can. All numbers of clients have their turn before the next
// turn begins.
func (m *measurement) contention(ctx context.Context) error {
	w, err := measure.Start(ctx, m.Config, min(processes, slices.Max(m.clients)))
	if err != nil {
		return err
	}
	defer w.Close()
	// The first turn is not measured: everybody connects.
	if _, err := w.Contend(ctx, m.names+"contention", slices.Max(m.clients), m.contendTime/3, lastHoldTime); err != nil {
		return err
	}
	n := len(m.clients)
	all := make([]report.Contention, n)
	rates, ratios, waits := make([][]float64, n), make([][]float64, n), make([][]float64, n)
	flat, err := m.inTurns(ctx, n*m.contentions, func(turn int) (float64, error) {
		i, clients := turn%n, m.clients[turn%n]
		c, err := w.Contend(ctx, fmt.Sprint(m.names, "contention-", turn), clients, m.contendTime, lastHoldTime)
		if err == nil && c.Holds == 0 {
			err = fmt.Errorf("none of %d clients had the lock within %v", clients, m.contendTime)
		}
		rates[i], waits[i] = append(rates[i], float64(c.Holds)/m.contendTime.Seconds()), append(waits[i], c.Waits...)
		all[i].Clients, all[i].Processes, all[i].Overlaps = clients, min(processes, clients), all[i].Overlaps+c.Overlaps
		return float64(m.contendTime.Microseconds()) / float64(c.Holds), err
	})
	if err != nil {
		return err
	}
	for turn, ratio := range flat {
		ratios[turn%n] = append(ratios[turn%n], ratio)
	}
	for i := range all {
		all[i].PerSecond, all[i].Ratio, all[i].Wait = report.SpreadOf(rates[i]), report.SpreadOf(ratios[i]), report.QuantilesOf(waits[i])
	}
	m.costs.Contention = all
	return nil
}

// handOff measures two processes that wait for each other in turn.
func (m *measurement) handOff(ctx context.Context) error {
	w, err := measure.Start(ctx, m.Config, 2)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.HandOff(ctx, m.names+"handoff", 2, handOffPause); err != nil { // both connect
		return err
	}
	var all []float64
	ratios, err := m.inTurns(ctx, m.turns, func(int) (float64, error) {
		times, err := w.HandOff(ctx, m.names+"handoff", m.handOffs, handOffPause)
		all = append(all, times...)
		return median(times), err
	})
	if err == nil {
		m.costs.HandOff = &report.HandOff{Time: report.QuantilesOf(all), Ratio: report.SpreadOf(ratios)}
	}
	return err
}

// takeover measures how long the locks of a process that is killed stay taken.
func (m *measurement) takeover(ctx context.Context) error {
	var times []float64
	for i := range m.takeovers {
		more, err := measure.Takeover(ctx, m.Config, measure.TakeoverOptions{
			Name: fmt.Sprint(m.names, "takeover-", i), Locks: takeoverNames, Waiters: processes - 1, Turn: i, Turns: m.takeovers,
		})
		if err != nil {
			return err
		}
		times = append(times, more...)
	}
	m.costs.Takeover = &report.Takeover{Time: report.QuantilesOf(times)}
	return nil
}

// waiters measures what waiters for a lock that somebody has cost the servers. Each number of them waits for a name of its own, all at the same time:
// requests are counted, and nobody is in anybody's way.
func (m *measurement) waiters(ctx context.Context) error {
	var crowds []report.Waiters
	for _, n := range m.plan.waiters {
		crowds = append(crowds, report.Waiters{Waiters: n, Processes: min(n, waitProcesses)})
	}
	if m.subject.article != "" {
		x, err := article(m.subject.article)
		if err != nil {
			return err
		}
		for _, c := range slices.Clone(crowds) {
			if c.Article = fmt.Sprintf("of article %s: %s", x.Article, x.Is); c.Waiters <= mostSpinning {
				crowds = append(crowds, c)
			}
		}
	}
	errs := make([]error, len(crowds))
	var all sync.WaitGroup
	for i := range crowds {
		c := m.Config
		if crowds[i].Article != "" {
			c.Library = m.subject.article
		}
		all.Go(func() {
			var idle measure.Idle
			idle, errs[i] = measure.MeasureIdle(ctx, c, measure.IdleOptions{
				Name: fmt.Sprint(m.names, "waiters-", i), Waiters: crowds[i].Waiters, Processes: crowds[i].Processes, For: m.waitTime,
			})
			crowds[i].PerSecond = idle.Requests
		})
	}
	all.Wait()
	err := errors.Join(errs...)
	switch {
	case errors.Is(err, measure.ErrNotCounted):
		return notRun(measure.ErrNotCounted.Error())
	case err == nil:
		m.costs.Waiters = crowds
	}
	return err
}

// failover measures for how long a client cannot have a lock when a server is lost.
func (m *measurement) failover(ctx context.Context) (err error) {
	st := m.stage
	if m.subject.failover != nil {
		if st, err = m.subject.failover(ctx); err != nil {
			return err
		}
		defer func() { _ = st.close() }()
	}
	if st.lose == nil {
		return notRun(st.what)
	}
	var gaps []float64
	for i := range m.failovers {
		if i > 0 && st.mend != nil {
			if err := st.mend(ctx); err != nil {
				return fmt.Errorf("the servers do not mend: %w", err)
			}
		}
		gap, err := measure.Gap(ctx, measure.Config{URL: st.url, TTL: m.TTL}, fmt.Sprint(m.names, "failover-", i), st.lose)
		if err != nil {
			return err
		}
		gaps = append(gaps, gap)
	}
	m.costs.Failover = &report.Failover{What: st.what, Time: report.QuantilesOf(gaps)}
	return nil
}
