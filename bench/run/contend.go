package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"

	"github.com/lockport/lockport/bench/crew"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/usage"
)

type contention struct {
	place
	goroutines int // of each process
	crew       crew.Crew
	stay       time.Duration // of each hold
}

// openContend is the scenario of many who want one name.
func openContend(processes, goroutines int) func(context.Context, place) (player, error) {
	return func(ctx context.Context, at place) (player, error) {
		all, err := crew.Kind.StartAll(ctx, at.posting(at.config(ttl)), processes)
		if err != nil {
			return nil, err
		}
		c := &contention{place: at, goroutines: goroutines, crew: all}
		if err := c.first(ctx); err != nil {
			c.close()
			return nil, err
		}
		return c, nil
	}
}

func (c *contention) close() { c.crew.Close() }

// startTime is how long it takes at most until all processes know when to begin.
const startTime = 50 * time.Millisecond

func (c *contention) turn(ctx context.Context, n int) ([]result.Value, error) {
	before, err := c.stage.Load(ctx, nil)
	if err != nil {
		return nil, err
	}
	begin := faults.Now().Add(startTime)
	end := begin.Add(c.Contend)
	answers, err := c.contend(ctx, fmt.Sprint(c.name, "-", n), begin, c.Contend, c.Grace)
	if err != nil {
		return nil, err
	}
	after, err := c.stage.Load(ctx, nil)
	if err != nil {
		return nil, err
	}
	each := make([][]crew.Held, len(answers))
	for i, a := range answers {
		each[i] = a.Unpack(i * c.goroutines)
	}
	f := judge(slices.Concat(each...), len(c.crew)*c.goroutines, end)
	if f.holds == 0 {
		return nil, errors.New("nobody had the lock")
	}
	var together crew.Answer
	for _, a := range answers {
		together.After = usage.Usage{CPU: together.After.CPU + a.After.CPU - a.Before.CPU}
	}
	// Only what has overlapped is an error of the lock; it is a figure, so that a table can show it.
	values := []result.Value{
		result.More("acquisitions", "/s", float64(f.holds)/c.Contend.Seconds()),
		result.More("hand-offs", "/s", float64(f.changes)/c.Contend.Seconds()),
		result.Less("longest wait", "ms", millis(f.longest)),
		result.Less("starved", "goroutines", float64(f.starved)),
		result.Less("overlaps", "holds", float64(f.overlaps)),
		result.Less("largest to smallest share", "×", f.shares),
	}
	if len(c.crew) > 1 {
		values = append(values, result.Less("largest to smallest share of processes", "×", processShares(each, end)))
	}
	return append(values, processors(together, before, after, float64(f.holds))...), nil
}

// first has everybody have a connection, or a session, when it begins.
func (c *contention) first(ctx context.Context) error {
	_, err := c.contend(ctx, c.name+"-first", faults.Now().Add(startTime), c.Contend/3, c.Grace)
	return err
}

// contend has all processes want one name for some time.
func (c *contention) contend(ctx context.Context, name string, begin faults.Instant, time, grace time.Duration) ([]crew.Answer, error) {
	answers := make([]crew.Answer, len(c.crew))
	err := c.crew.Each(func(i int, clerk *crew.Clerk) (err error) {
		answers[i], err = clerk.Ask(ctx, crew.Order{Do: crew.Contend, Name: name, Goroutines: c.goroutines, Begin: begin, For: time, Grace: grace, Stay: c.stay})
		return err
	})
	return answers, err
}

// fairness is what is seen in the holds of a turn.
type fairness struct {
	holds    int // that began in time
	changes  int // of them, those by another goroutine than the hold before
	starved  int // goroutines without any
	overlaps int
	shares   float64 // see the function of that name
	longest  time.Duration
}

// judge looks at all holds of a turn. A correct lock has no overlaps: a hold ends, for this purpose, before its release is sent, and the next begins when its
// grant has arrived.
func judge(all []crew.Held, clients int, end faults.Instant) (f fairness) {
	slices.SortFunc(all, func(a, b crew.Held) int { return cmp.Or(cmp.Compare(a.Got, b.Got), cmp.Compare(a.Ended, b.Ended)) })
	counts := make([]int, clients)
	until, last := faults.Instant(0), int64(-1)
	for _, h := range all {
		if h.Got == 0 {
			f.longest = max(f.longest, end.Sub(h.Asked)) // it never came; at least so long
			continue
		}
		if h.Got < until {
			f.overlaps++
		}
		until = max(until, h.Ended)
		f.longest = max(f.longest, h.Got.Sub(h.Asked))
		if h.Got >= end {
			continue
		}
		if f.holds++; h.Client != last {
			f.changes++
		}
		last = h.Client
		counts[h.Client]++
	}
	for _, n := range counts {
		if n == 0 {
			f.starved++
		}
	}
	f.shares = shares(counts)
	return f
}

// processShares is the ratio of holds of the process that had most to that which had fewest.
func processShares(each [][]crew.Held, end faults.Instant) float64 {
	var counts []int
	for _, holds := range each {
		n := 0
		for _, h := range holds {
			if h.Got > 0 && h.Got < end {
				n++
			}
		}
		counts = append(counts, n)
	}
	return shares(counts)
}

// shares is the ratio of the largest to the smallest, which counts as one at least.
func shares(counts []int) float64 {
	return float64(slices.Max(counts)) / float64(max(1, slices.Min(counts)))
}
