package costs

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/report"
)

const (
	// takeoverNames is how many locks a process has that is killed: a sample each.
	takeoverNames = 10
	// settleTime is how long it takes at most until all those are in the servers' queues, or listen, who are told to wait.
	settleTime = 300 * time.Millisecond
	// takeoverLimit is how long after the TTL the wait for a dead holder's lock is called a failure.
	takeoverLimit = 20 * time.Second
)

// takeover measures how long the locks of a process that is killed stay taken. Kills come at several moments of the period of renewals, which is a third of
// the TTL.
func (m *measurement) takeover(ctx context.Context) error {
	var times []float64
	for i := range m.takeovers {
		into := m.TTL / 3 * time.Duration(2*i+1) / time.Duration(2*m.takeovers)
		more, err := m.takeOver(ctx, fmt.Sprintf("%stakeover-%d", m.names, i), into)
		if err != nil {
			return err
		}
		times = append(times, more...)
	}
	m.costs.Takeover = &report.Takeover{Time: report.QuantilesOf(times)}
	return nil
}

// takeOver kills a holder once, that long after others have settled to wait.
func (m *measurement) takeOver(ctx context.Context, name string, into time.Duration) ([]float64, error) {
	all, err := kind.StartAll(ctx, m.posting, processes)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	holder, others := all[0], all[1:]
	names := make([]string, takeoverNames)
	for i := range names {
		names[i] = fmt.Sprint(name, "-", i)
		if _, err := holder.Ask(ctx, order{Do: doAcquire, Name: names[i], For: waitLimit}); err != nil {
			return nil, err
		}
	}
	waits := make([]func(context.Context) (answer, error), len(names))
	for i := range names {
		waits[i] = others[i%len(others)].Send(order{Do: doAcquire, Name: names[i], For: m.TTL + takeoverLimit})
	}
	if err := sleep(ctx, settleTime+into); err != nil {
		return nil, err
	}
	killed := faults.Now()
	holder.Kill()
	times := make([]float64, len(names))
	for i := range names {
		got, err := waits[i](ctx)
		if err != nil {
			return nil, err
		}
		if times[i] = millis(got.At.Sub(killed)); times[i] < 0 {
			return nil, fmt.Errorf("it was had by the next %v before its holder was killed", killed.Sub(got.At))
		}
	}
	return times, nil // what the others have is released as they end
}
