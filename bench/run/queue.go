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
)

// queued is the scenario of a lock that passes round among many who wait, in several processes. Nobody is in a hurry: what is measured is how long it takes
// from process to process, not how fast it goes round.
type queued struct {
	contention
}

const (
	// stay is how long each has the lock.
	stay = 2 * time.Millisecond
	// fewest is what a turn lasts at least: a process has the lock for a tenth of a second at most while others wait for it.
	fewest = 300 * time.Millisecond
)

// openQueue has waiters in up to four processes.
func openQueue(waiters int) func(context.Context, place) (player, error) {
	return func(ctx context.Context, at place) (player, error) {
		processes := min(waiters, 4)
		all, err := crew.Kind.StartAll(ctx, at.posting(at.config(ttl)), processes)
		if err != nil {
			return nil, err
		}
		q := &queued{contention{place: at, goroutines: waiters / processes, crew: all, stay: stay}}
		if err := q.first(ctx); err != nil {
			q.close()
			return nil, err
		}
		return q, nil
	}
}

func (q *queued) turn(ctx context.Context, n int) ([]result.Value, error) {
	begin, lasts := faults.Now().Add(startTime), max(q.Contend/2, fewest)
	end := begin.Add(lasts)
	answers, err := q.contend(ctx, fmt.Sprint(q.name, "-", n), begin, lasts, q.Grace)
	if err != nil {
		return nil, err
	}
	var holds []crew.Held
	for i, a := range answers {
		holds = append(holds, a.Unpack(i*q.goroutines)...)
	}
	times := passes(holds, q.goroutines, end)
	if len(times) == 0 {
		return nil, errors.New("the lock was never passed to another process")
	}
	return append(latencies(times), result.More("hand-offs", "/s", float64(len(times))/lasts.Seconds())), nil
}

// passes are the times, in microseconds, from the end of a hold to the beginning of the next one where that is another process's, until the end: after that
// fewer and fewer wait.
func passes(holds []crew.Held, perProcess int, end faults.Instant) (times []float64) {
	holds = slices.DeleteFunc(holds, func(h crew.Held) bool { return h.Got == 0 || h.Got >= end })
	slices.SortFunc(holds, func(a, b crew.Held) int { return cmp.Compare(a.Got, b.Got) })
	for i, h := range holds {
		if i > 0 && h.Client/int64(perProcess) != holds[i-1].Client/int64(perProcess) && holds[i-1].Ended > h.Asked {
			times = append(times, micros(h.Got.Sub(holds[i-1].Ended)))
		}
	}
	return times
}
