package costs

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/report"
	crew "github.com/lockport/lockport/internal/lab/worker"
)

const (
	// calmTime is how long a client takes locks before a server is lost.
	calmTime = 300 * time.Millisecond
	// calmAttempts is how many attempts must succeed when the servers have mended.
	calmAttempts = 20
	// mendLimit is within what time they must, and servers must mend.
	mendLimit = 30 * time.Second
)

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
	var gaps []float64
	for i := range m.failovers {
		if i > 0 && l.mend != nil {
			if err := l.mend(ctx); err != nil {
				return fmt.Errorf("the servers do not mend: %w", err)
			}
		}
		gap, err := m.gap(ctx, l, fmt.Sprintf("%sfailover-%d", m.names, i))
		if err != nil {
			return err
		}
		gaps = append(gaps, gap)
	}
	m.costs.Failover = &report.Failover{What: l.what, Time: report.QuantilesOf(gaps)}
	return nil
}

// gap loses a server once, and returns the longest time between two locks that a client had since, in milliseconds.
func (m *measurement) gap(ctx context.Context, l *loss, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*mendLimit)
	defer cancel()
	all, err := kind.StartAll(ctx, posting{URL: l.url, TTL: m.TTL}, 1)
	if err != nil {
		return 0, err
	}
	defer all.Kill() // the servers are our own, and one of them is not there: to release what is held would take its time
	client := all[0]
	if _, err := client.Ask(ctx, order{Do: doProbe, Name: name}); err != nil {
		return 0, err
	}
	if err := sleep(ctx, calmTime); err != nil {
		return 0, err
	}
	struck := faults.Now()
	if err := l.kill(ctx); err != nil {
		return 0, err
	}
	if l.recovered != nil {
		if err := l.recovered(ctx); err != nil {
			return 0, err
		}
	}
	a, err := client.Ask(ctx, order{Do: doProbed, Begin: faults.Now(), Most: calmAttempts, For: mendLimit})
	if err != nil {
		return 0, err
	}
	return millis(longestGap(crew.Unpack[int64](a.Instants), struck)), nil
}

// longestGap is the longest time between two successes, the second of which came after the strike.
func longestGap(successes []int64, struck faults.Instant) (longest time.Duration) {
	for i := 1; i < len(successes); i++ {
		if successes[i] > int64(struck) {
			longest = max(longest, time.Duration(successes[i]-successes[i-1]))
		}
	}
	return longest
}
