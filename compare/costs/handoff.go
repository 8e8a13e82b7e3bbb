package costs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport/internal/lab/report"
)

// waitLimit is how long a client waits for a lock that will be released at once, before that is called a failure.
const waitLimit = 20 * time.Second

// A hold of the hand-off lasts this long: long enough for the other process to wait in earnest, and never equally long, so that a waiter which looks
// again and again is not met at the same moment each time.
const (
	shortestHold = 5 * time.Millisecond
	longestHold  = 15 * time.Millisecond
)

// handOff measures two processes that wait for each other in turn.
func (m *measurement) handOff(ctx context.Context) error {
	both, err := m.pinging(ctx, 2)
	if err != nil {
		return err
	}
	defer both.Close()
	name := m.names + "handoff"
	if _, err := both[0].Ask(ctx, order{Do: doAcquire, Name: name, For: waitLimit}); err != nil {
		return err
	}
	var all, ratios, before []float64
	for turn := range 1 + m.turns {
		times := make([]float64, m.handOffs)
		for i := range times {
			if times[i], err = pass(ctx, both, name); err != nil {
				return err
			}
			both[0], both[1] = both[1], both[0]
		}
		after, err := m.roundTrips(ctx, both[1])
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

// pass has the second wait for what the first has, and the first release it.
func pass(ctx context.Context, both team, name string) (float64, error) {
	await := both[1].Send(order{Do: doAcquire, Name: name, For: waitLimit})
	if err := sleep(ctx, shortestHold+rand.N(longestHold-shortestHold)); err != nil {
		return 0, err
	}
	released, err := both[0].Ask(ctx, order{Do: doRelease, Name: name})
	if err != nil {
		return 0, err
	}
	got, err := await(ctx)
	if err != nil {
		return 0, err
	}
	if got.At < released.At {
		return 0, fmt.Errorf("it was had by the next %v before it was released", released.At.Sub(got.At))
	}
	return micros(got.At.Sub(released.At)), nil
}

// sleep ends early with ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
