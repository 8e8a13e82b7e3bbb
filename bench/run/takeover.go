package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"

	"github.com/lockport/lockport/bench/crew"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/stage"
)

type takeover struct{ place }

func openTakeover(_ context.Context, at place) (player, error) { return takeover{at}, nil }

func (takeover) close() {}

// takeoverNames is how many locks a process has that is killed: no more than lockport waits for in a SQL server's own queue.
const takeoverNames = 4

// turn kills a holder, each time at another moment of its period of renewals, in which a TTL passes three times.
func (t takeover) turn(ctx context.Context, n int) ([]result.Value, error) {
	c := t.config(t.DeadTTL)
	c.Loop = true
	all, err := crew.Kind.StartAll(ctx, t.posting(c), 2)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	holder, waiter := all[0], all[1]
	var names []string
	var waits []func(context.Context) (crew.Answer, error)
	for i := range takeoverNames {
		names = append(names, fmt.Sprint(t.name, "-", n, "-", i))
		take := crew.Order{Do: crew.Acquire, Name: names[i], For: 2*t.DeadTTL + grantLimit/2}
		if _, err := holder.Ask(ctx, take); err != nil {
			return nil, err
		}
		waits = append(waits, waiter.Send(take))
	}
	// The golden section spreads any number of turns.
	into := t.DeadTTL / 3 * time.Duration(618*n%1000) / 1000
	if err := sleep(ctx, t.DeadTTL/3+into); err != nil {
		return nil, err
	}
	expiry, err := t.stage.Watch(ctx, names)
	if err != nil {
		return nil, err
	}
	if expiry != nil {
		defer expiry.Close()
	}
	killed := faults.Now()
	holder.Kill()
	if expiry != nil {
		if err := expiry.Killed(ctx); err != nil {
			return nil, err
		}
	}
	var times, late []float64
	for i, wait := range waits {
		got, err := wait(ctx)
		if err != nil {
			return nil, err
		}
		if got.At < killed {
			return nil, fmt.Errorf("it was had by the next %v before its holder was killed", killed.Sub(got.At))
		}
		times = append(times, millis(got.At.Sub(killed)))
		if expiry != nil {
			at, err := letGo(ctx, expiry, names[i])
			if err != nil {
				return nil, err
			}
			late = append(late, millis(got.At.Sub(at)))
		}
	}
	values := []result.Value{
		result.Less("p50", "ms", result.SpreadOf(times).Median),
		result.Less("most", "ms", slices.Max(times)),
	}
	if expiry != nil {
		values = append(values, result.Less("most after the server's expiry", "ms", max(0, slices.Max(late))))
	}
	return append(values, result.Plain("TTL", "ms", millis(t.DeadTTL))), nil
}

// seenTime is how much later than who waited the run hears at most that the server has let go of a name.
const seenTime = 3 * time.Second

// letGo is when the server let go of a name.
func letGo(ctx context.Context, expiry stage.Expiry, name string) (faults.Instant, error) {
	ctx, cancel := context.WithTimeout(ctx, seenTime)
	defer cancel()
	for {
		if at, ok := expiry.At(name); ok {
			return at, nil
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return 0, fmt.Errorf("the server's expiry of %q was not seen: %w", name, err)
		}
	}
}
