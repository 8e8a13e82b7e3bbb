package costs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/report"
	crew "github.com/lockport/lockport/internal/lab/worker"
)

// contention measures many clients, of several processes, that take one lock in turn as fast as they can. All numbers of clients have their turn before the
// next turn begins, and between two of them there are bare round trips.
func (m *measurement) contention(ctx context.Context) error {
	all, err := m.pinging(ctx, min(processes, slices.Max(m.clients)))
	if err != nil {
		return err
	}
	defer all.Close()
	levels := make([]level, len(m.clients))
	before, err := m.roundTrips(ctx, all[0])
	if err != nil {
		return err
	}
	for turn := range m.contentions {
		for l, clients := range m.clients {
			perHold, err := levels[l].turn(ctx, all, clients, fmt.Sprintf("%scontention-%d-%d", m.names, clients, turn), m.contendTime)
			if err != nil {
				return err
			}
			after, err := m.roundTrips(ctx, all[0])
			if err != nil {
				return err
			}
			levels[l].ratios = addRatio(levels[l].ratios, perHold, before, after)
			before = after
		}
	}
	for l, clients := range m.clients {
		m.costs.Contention = append(m.costs.Contention, levels[l].figures(clients, min(len(all), clients)))
	}
	return nil
}

// level is what is known of one number of clients.
type level struct {
	rates, ratios, waits []float64
	overlaps             int
}

// startTime is how long it takes at most until all processes know when to begin.
const startTime = 30 * time.Millisecond

// turn measures once, and returns the time for each hold in microseconds.
func (l *level) turn(ctx context.Context, all team, clients int, name string, time time.Duration) (perHold float64, err error) {
	all = all[:min(len(all), clients)]
	begin := faults.Now().Add(startTime)
	end := begin.Add(time)
	each := make([][]hold, len(all))
	err = all.Each(func(i int, c *clerk) error {
		first, next := clients*i/len(all), clients*(i+1)/len(all)
		a, err := c.Ask(ctx, order{Do: doContend, Name: name, Goroutines: next - first, Begin: begin, For: time})
		each[i] = numbered(crew.Unpack[hold](a.Instants), first)
		return err
	})
	if err != nil {
		return 0, err
	}
	holds := slices.Concat(each...)
	l.overlaps += overlaps(holds)
	n := 0
	for _, h := range holds {
		if h.Got < end {
			n++
			l.waits = append(l.waits, micros(h.Got.Sub(h.Asked)))
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("none of %d clients had the lock within %v", clients, time)
	}
	l.rates = append(l.rates, float64(n)/time.Seconds())
	return micros(time) / float64(n), nil
}

// figures are those of all turns.
func (l *level) figures(clients, processes int) report.Contention {
	return report.Contention{
		Clients: clients, Processes: processes,
		PerSecond: report.SpreadOf(l.rates), Ratio: report.SpreadOf(l.ratios),
		Wait: report.QuantilesOf(l.waits), Overlaps: l.overlaps,
	}
}
