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

// countedCycles is how many are made through links that count their requests.
const countedCycles = 50

type cycles struct {
	place
	goroutines int
	clerk      *crew.Clerk
	// For one goroutine: the same through links.
	links   *stage.Links
	counted *crew.Clerk
}

// openCycle is the scenario of goroutines that are in nobody's way.
func openCycle(goroutines int) func(context.Context, place) (player, error) {
	return func(ctx context.Context, at place) (_ player, err error) {
		c := &cycles{place: at, goroutines: goroutines}
		defer func() {
			if err != nil {
				c.close()
			}
		}()
		if c.clerk, err = crew.Kind.Start(ctx, at.posting(at.config(ttl))); err != nil {
			return nil, err
		}
		// There are connections when it begins.
		if _, err = c.run(ctx, c.clerk, time.Millisecond, mostCycles); err != nil || goroutines > 1 {
			return c, err
		}
		if c.links, err = at.stage.Link(); err != nil {
			return nil, err
		}
		through := at.config(ttl)
		through.URL = c.links.URL
		if c.counted, err = crew.Kind.Start(ctx, crew.Posting{Family: at.lib.Family, Library: at.lib.Name, Config: through}); err != nil {
			return nil, err
		}
		_, err = c.run(ctx, c.counted, time.Minute, 1)
		return c, err
	}
}

func (c *cycles) close() {
	(crew.Crew{c.clerk, c.counted}).Close()
	if c.links != nil {
		c.links.Close()
	}
}

func (c *cycles) run(ctx context.Context, clerk *crew.Clerk, time time.Duration, most int) (crew.Answer, error) {
	return clerk.Ask(ctx, crew.Order{
		Do: crew.Cycle, Name: c.name, Goroutines: c.goroutines, Most: max(1, most/c.goroutines), For: time, Try: c.lib.Kind == lib.Floor,
	})
}

func (c *cycles) turn(ctx context.Context, _ int) ([]result.Value, error) {
	before, err := c.stage.Load(ctx, nil)
	if err != nil {
		return nil, err
	}
	a, err := c.run(ctx, c.clerk, c.Cycle, mostCycles)
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
	}
	if c.counted != nil {
		requests, err := c.requests(ctx)
		if err != nil {
			return nil, err
		}
		values = append(values, result.Less("requests", "each", requests))
	}
	if c.stage.CountsCommands() {
		values = append(values, result.Less("commands", "each", float64(after.Commands-before.Commands)/(n+float64(crew.FirstCycles*c.goroutines))))
	}
	values = append(values,
		result.Less("allocations", "each", float64(a.After.Allocs-a.Before.Allocs)/n),
		result.Less("allocated", "B each", float64(a.After.Allocated-a.Before.Allocated)/n),
	)
	return append(values, processors(a, before, after, n)...), nil
}

// requests is how many a cycle needs: what reaches the server in one piece.
func (c *cycles) requests(ctx context.Context) (float64, error) {
	before, err := c.stage.Load(ctx, c.links)
	if err != nil {
		return 0, err
	}
	a, err := c.run(ctx, c.counted, time.Minute, countedCycles)
	if err != nil {
		return 0, err
	}
	after, err := c.stage.Load(ctx, c.links)
	return float64(after.Requests-before.Requests) / float64(a.Count+crew.FirstCycles), err
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
