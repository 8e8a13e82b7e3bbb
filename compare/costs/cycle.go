package costs

import (
	"context"
	"slices"

	"github.com/lockport/lockport/internal/lab/report"
)

// cycle measures one client that acquires and releases a lock which nobody else wants, in turns with bare round trips, one for each cycle.
func (m *measurement) cycle(ctx context.Context) error {
	clients, err := m.pinging(ctx, 1)
	if err != nil {
		return err
	}
	defer clients.Close()
	client := clients[0]
	measure := order{Do: doCycle, Name: m.names + "cycle", Most: m.cycles, For: m.cycleTime}
	if _, err := client.Ask(ctx, warm(measure)); err != nil {
		return err
	}
	var acquires, releases, ratios []float64
	for range m.turns {
		a, err := client.Ask(ctx, measure)
		if err != nil {
			return err
		}
		acquires, releases = append(acquires, a.Acquires...), append(releases, a.Releases...)
		m.pinged(a)
		both := make([]float64, len(a.Acquires))
		for i := range both {
			both[i] = a.Acquires[i] + a.Releases[i]
		}
		ratios = addRatio(ratios, median(both), a.Pings)
	}
	m.costs.Cycle = &report.Cycle{Acquire: report.QuantilesOf(acquires), Release: report.QuantilesOf(releases), Ratio: report.SpreadOf(ratios)}
	return nil
}

// pinging starts n workers that make bare round trips too.
func (m *measurement) pinging(ctx context.Context, n int) (team, error) {
	p := m.posting
	p.Pings = true
	return kind.StartAll(ctx, p, n)
}

// warm is an order whose answer is not used: the first of a process connect, and have a server read its scripts.
func warm(o order) order {
	o.Most = 20
	return o
}

// roundTrips makes a turn of bare round trips, in microseconds; none if the backend has none.
func (m *measurement) roundTrips(ctx context.Context, client *clerk) ([]float64, error) {
	a, err := client.Ask(ctx, order{Do: doPing, Most: m.plan.pings, For: m.pingTime})
	m.pinged(a)
	return a.Pings, err
}

// pinged keeps what was heard of bare round trips.
func (m *measurement) pinged(a answer) {
	if a.Question != "" {
		m.costs.Question = a.Question
	}
	m.pings = append(m.pings, a.Pings...)
}

func median(samples []float64) float64 { return report.SpreadOf(samples).Median }

// addRatio adds that of a turn's figure to the median of its bare round trips, if there are any.
func addRatio(ratios []float64, figure float64, pings ...[]float64) []float64 {
	if roundTrip := median(slices.Concat(pings...)); roundTrip > 0 {
		ratios = append(ratios, figure/roundTrip)
	}
	return ratios
}
