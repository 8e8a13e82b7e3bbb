package run

import (
	"context"
	"time"

	"github.com/lockport/lockport/bench/crew"
	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/stage"
)

// mostCycles is how many times are noted of a turn: more than any library makes.
const mostCycles = 400_000

type cycles struct {
	place
	goroutines int
	clerk      *crew.Clerk
}

// openCycle is the scenario of goroutines that are in nobody's way.
func openCycle(goroutines int) func(context.Context, place) (player, error) {
	return func(ctx context.Context, at place) (player, error) {
		clerk, err := crew.Hire(ctx, at.posting(at.config(ttl)))
		if err != nil {
			return nil, err
		}
		c := &cycles{at, goroutines, clerk}
		// There are connections when it begins.
		if _, err := c.run(ctx, time.Millisecond); err != nil {
			c.close()
			return nil, err
		}
		return c, nil
	}
}

func (c *cycles) close() { c.clerk.End() }

func (c *cycles) run(ctx context.Context, time time.Duration) (crew.Answer, error) {
	return c.clerk.Ask(ctx, crew.Order{
		Do: crew.Cycle, Name: c.name, Goroutines: c.goroutines, Most: mostCycles / c.goroutines, For: time, Try: c.lib.Kind == lib.Floor,
	})
}

func (c *cycles) turn(ctx context.Context, _ int) ([]result.Value, error) {
	before, err := c.stage.Load(ctx, nil)
	if err != nil {
		return nil, err
	}
	a, err := c.run(ctx, c.Cycle)
	if err != nil {
		return nil, err
	}
	after, err := c.stage.Load(ctx, nil)
	if err != nil {
		return nil, err
	}
	n := float64(a.Count)
	values := []result.Value{
		result.Less("p50", "µs", a.P50),
		result.Less("p99", "µs", a.P99),
		result.More("cycles", "/s", n/a.Took.Seconds()),
		result.Less("allocations", "each", float64(a.After.Allocs-a.Before.Allocs)/n),
		result.Less("allocated", "B each", float64(a.After.Allocated-a.Before.Allocated)/n),
	}
	return append(values, processors(a, before, after, n)...), nil
}

// processors are the processor times for each of n, of what the worker has done and of the servers meanwhile; 0 where the system does not say.
func processors(a crew.Answer, before, after stage.Load, n float64) []result.Value {
	return []result.Value{
		result.Less("client CPU", "µs each", micros(a.After.CPU-a.Before.CPU)/n),
		result.Less("server CPU", "µs each", micros(after.CPU-before.CPU)/n),
	}
}

// micros is d in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// millis is d in milliseconds.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
