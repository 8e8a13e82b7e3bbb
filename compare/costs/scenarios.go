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

// scenarios are what is measured of each subject, in this order.
var scenarios = []struct {
	name    string
	measure func(*measurement, context.Context) error
	// idle says that nearly all of its time is spent waiting for a TTL to pass: such scenarios are measured at the same time.
	idle bool
}{
	{name: "cycle", measure: (*measurement).cycle},
	{name: "contention", measure: (*measurement).contention},
	{name: "handoff", measure: (*measurement).handOff},
	{name: "takeover", measure: (*measurement).takeover, idle: true},
	{name: "waiters", measure: (*measurement).waiters, idle: true},
	{name: "failover", measure: (*measurement).failover}, // the last: it changes the servers
}

// measurement is that of one subject.
type measurement struct {
	plan
	measure.Config
	stage *stage
	costs *report.Costs
	names string    // what the names of its locks begin with
	pings []float64 // of all turns
}

// pinging starts n workers that can make bare round trips.
func (m *measurement) pinging(ctx context.Context, n int) (*measure.Workers, error) {
	c := m.Config
	c.Pings = true
	return measure.Start(ctx, c, n)
}

// cycle measures one client that acquires and releases a lock that nobody else wants, with a bare round trip before each cycle.
func (m *measurement) cycle(ctx context.Context) error {
	w, err := m.pinging(ctx, 1)
	if err != nil {
		return err
	}
	defer w.Close()
	o := measure.CycleOptions{Name: m.names + "cycle", Goroutines: 1, Most: m.cycles, For: m.cycleTime}
	warm := o
	warm.Most = 20 // the first cycles connect, and have a server read its scripts
	if _, err := w.Cycle(ctx, warm); err != nil {
		return err
	}
	var acquires, releases, ratios []float64
	for range m.turns {
		c, err := w.Cycle(ctx, o)
		if err != nil {
			return err
		}
		acquires, releases = append(acquires, c.Acquire...), append(releases, c.Release...)
		m.costs.Question, m.pings = c.Question, append(m.pings, c.Pings...)
		ratios = addRatio(ratios, median(c.Both), c.Pings)
	}
	m.costs.Cycle = &report.Cycle{Acquire: report.QuantilesOf(acquires), Release: report.QuantilesOf(releases), Ratio: report.SpreadOf(ratios)}
	return nil
}

// roundTrips makes a turn of bare round trips, in microseconds.
func (m *measurement) roundTrips(ctx context.Context, w *measure.Workers) ([]float64, error) {
	pings, err := w.Ping(ctx, m.plan.pings, m.pingTime)
	m.pings = append(m.pings, pings...)
	return pings, err
}

func median(samples []float64) float64 { return report.SpreadOf(samples).Median }

// addRatio adds the ratio of a turn's figure to the median of its bare round trips, if there are any.
func addRatio(ratios []float64, figure float64, pings ...[]float64) []float64 {
	if roundTrip := median(slices.Concat(pings...)); roundTrip > 0 {
		ratios = append(ratios, figure/roundTrip)
	}
	return ratios
}

// lastHoldTime is how long the last holds of a turn may take to come. Nobody gives up before: that would cost the server something that is not measured.
const lastHoldTime = 20 * time.Second

// contention measures many clients, of several processes, that take one lock as fast as they can. All numbers of clients have their turn before the next
// turn begins, and between two of them there are bare round trips.
func (m *measurement) contention(ctx context.Context) error {
	w, err := m.pinging(ctx, min(processes, slices.Max(m.clients)))
	if err != nil {
		return err
	}
	defer w.Close()
	rates, ratios, waits := make([][]float64, len(m.clients)), make([][]float64, len(m.clients)), make([][]float64, len(m.clients))
	overlaps := make([]int, len(m.clients))
	before, err := m.roundTrips(ctx, w)
	if err != nil {
		return err
	}
	for turn := range m.contentions {
		for l, clients := range m.clients {
			c, err := w.Contend(ctx, fmt.Sprintf("%scontention-%d-%d", m.names, clients, turn), clients, m.contendTime, lastHoldTime)
			if err == nil && c.Holds == 0 {
				err = fmt.Errorf("none of %d clients had the lock within %v", clients, m.contendTime)
			}
			if err != nil {
				return err
			}
			after, err := m.roundTrips(ctx, w)
			if err != nil {
				return err
			}
			rates[l] = append(rates[l], float64(c.Holds)/m.contendTime.Seconds())
			ratios[l] = addRatio(ratios[l], float64(m.contendTime.Microseconds())/float64(c.Holds), before, after)
			waits[l], overlaps[l] = append(waits[l], c.Waits...), overlaps[l]+c.Overlaps
			before = after
		}
	}
	for l, clients := range m.clients {
		m.costs.Contention = append(m.costs.Contention, report.Contention{
			Clients: clients, Processes: min(processes, clients),
			PerSecond: report.SpreadOf(rates[l]), Ratio: report.SpreadOf(ratios[l]), Wait: report.QuantilesOf(waits[l]), Overlaps: overlaps[l],
		})
	}
	return nil
}

// handOffPause is how long a hold of the hand-off lasts at least.
const handOffPause = 7 * time.Millisecond

// handOff measures two processes that wait for each other in turn.
func (m *measurement) handOff(ctx context.Context) error {
	w, err := m.pinging(ctx, 2)
	if err != nil {
		return err
	}
	defer w.Close()
	var all, ratios, before []float64
	for turn := range 1 + m.turns {
		times, err := w.HandOff(ctx, m.names+"handoff", m.handOffs, handOffPause)
		if err != nil {
			return err
		}
		after, err := m.roundTrips(ctx, w)
		if err != nil {
			return err
		}
		if turn > 0 { // in the first, they connect
			all = append(all, times...)
			ratios = addRatio(ratios, median(times), before, after)
		}
		before = after
	}
	m.costs.HandOff = &report.HandOff{Time: report.QuantilesOf(all), Ratio: report.SpreadOf(ratios)}
	return nil
}

// takeoverNames is how many locks a process has that is killed: a sample each.
const takeoverNames = 10

// takeover measures how long the locks of a process that is killed stay taken.
func (m *measurement) takeover(ctx context.Context) error {
	var times []float64
	for i := range m.takeovers {
		more, err := measure.Takeover(ctx, m.Config, measure.TakeoverOptions{
			Name: fmt.Sprintf("%stakeover-%d", m.names, i), Locks: takeoverNames, Waiters: processes - 1, Turn: i, Turns: m.takeovers,
		})
		if err != nil {
			return err
		}
		times = append(times, more...)
	}
	m.costs.Takeover = &report.Takeover{Time: report.QuantilesOf(times)}
	return nil
}

const (
	// waitProcesses is how many processes waiters are spread over.
	waitProcesses = 3
	// mostSpinning is how many waiters may ask again and again: more would be in each other's way.
	mostSpinning = 30
)

// waiters measures what waiters for a lock that somebody has cost the servers. Each number of them waits for a name of its own, all at the same time:
// requests are counted, and nobody is in anybody's way.
func (m *measurement) waiters(ctx context.Context) error {
	var crowds []report.Waiters
	for _, library := range slices.Compact([]string{"", m.stage.article}) {
		for _, n := range m.plan.waiters {
			if library != "" && n > mostSpinning {
				continue
			}
			crowd := report.Waiters{Waiters: n, Processes: min(n, waitProcesses)}
			if library != "" {
				x, err := article(library)
				if err != nil {
					return err
				}
				crowd.Article = fmt.Sprintf("of article %s: %s", x.Article, x.Is)
			}
			crowds = append(crowds, crowd)
		}
	}
	errs := make([]error, len(crowds))
	var all sync.WaitGroup
	for i := range crowds {
		c := m.Config
		if crowds[i].Article != "" {
			c.Library = m.stage.article
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
	if err := errors.Join(errs...); err != nil {
		if errors.Is(err, measure.ErrNotCounted) {
			err = notRun(measure.ErrNotCounted.Error())
		}
		return err
	}
	m.costs.Waiters = crowds
	return nil
}

// failover measures for how long a client cannot have a lock when a server is lost.
func (m *measurement) failover(ctx context.Context) error {
	if m.stage.lose == nil {
		return notRun(m.stage.lostWhy)
	}
	l, err := m.stage.lose(ctx)
	if err != nil {
		return err
	}
	if l.close != nil {
		defer func() { _ = l.close() }()
	}
	c := measure.Config{URL: l.url, TTL: m.TTL}
	var gaps []float64
	for i := range m.failovers {
		if i > 0 && l.mend != nil {
			if err := l.mend(ctx); err != nil {
				return fmt.Errorf("the servers do not mend: %w", err)
			}
		}
		gap, err := measure.Gap(ctx, c, fmt.Sprintf("%sfailover-%d", m.names, i), l.kill)
		if err != nil {
			return err
		}
		gaps = append(gaps, gap)
	}
	m.costs.Failover = &report.Failover{What: l.what, Time: report.QuantilesOf(gaps)}
	return nil
}
