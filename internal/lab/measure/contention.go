package measure

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/worker"
)

// Contention is what was seen while many goroutines wanted one name.
type Contention struct {
	Holds    int // that began in time
	Changes  int // of them, those by another goroutine than the hold before
	Starved  int // goroutines without any
	Overlaps int // holds that began before an earlier one had ended: a correct lock has none
	// Longest is the longest wait, also of those whose hold never came.
	Longest time.Duration
	// Waits are from asking to having, in microseconds.
	Waits []float64
	// Clients and Processes are how many holds each goroutine and each process had.
	Clients, Processes []int
	// CPU is what the workers used.
	CPU time.Duration
}

// startTime is how long it takes at most until all processes know when to begin.
const startTime = 50 * time.Millisecond

// Contend has clients, spread over the workers, acquire and release one name as fast as they can for some time. Each comes to the end of the hold that it
// asked for; after grace nobody waits any longer.
func (w *Workers) Contend(ctx context.Context, name string, clients int, time, grace time.Duration) (Contention, error) {
	all := w.all[:min(len(w.all), clients)]
	begin := history.Now().Add(startTime)
	answers := make([]answer, len(all))
	err := all.Each(func(i int, h *worker.Handle[order, answer]) (err error) {
		answers[i], err = h.Ask(ctx, order{Do: "contend", Name: name, Goroutines: share(clients, len(all), i), Begin: begin, For: time, Grace: grace})
		return err
	})
	if err != nil {
		return Contention{}, err
	}
	var holds []hold
	first := 0
	for i, a := range answers {
		for _, h := range worker.Unpack[hold](a.Packed) {
			h.Client, h.Process = h.Client+int64(first), int64(i)
			holds = append(holds, h)
		}
		first += share(clients, len(all), i)
	}
	c := judge(holds, clients, len(all), begin.Add(time))
	for _, a := range answers {
		c.CPU += a.After.CPU - a.Before.CPU
	}
	return c, nil
}

// share is the ith of n parts of all.
func share(all, n, i int) int { return all*(i+1)/n - all*i/n }

// hold is one hold under contention. Its holder believed in it from Got until Ended. A hold that never came has neither.
type hold struct {
	Client, Process int64
	Asked           history.Instant // Acquire is about to be called
	Got             history.Instant // it had returned
	Ended           history.Instant // Release is about to be called
}

// judge looks at all holds. Release is called before the server can grant the lock to the next, whose Acquire returns after: so holds of a correct lock do
// not overlap.
func judge(all []hold, clients, processes int, end history.Instant) Contention {
	c := Contention{Clients: make([]int, clients), Processes: make([]int, processes)}
	slices.SortFunc(all, func(a, b hold) int { return cmp.Or(cmp.Compare(a.Got, b.Got), cmp.Compare(a.Ended, b.Ended)) })
	until, last := history.Instant(0), int64(-1)
	for _, h := range all {
		if h.Got == 0 {
			c.Longest = max(c.Longest, end.Sub(h.Asked)) // at least so long
			continue
		}
		if h.Got < until {
			c.Overlaps++
		}
		until = max(until, h.Ended)
		c.Longest = max(c.Longest, h.Got.Sub(h.Asked))
		if h.Got >= end {
			continue
		}
		if c.Holds++; h.Client != last {
			c.Changes++
		}
		last = h.Client
		c.Clients[h.Client]++
		c.Processes[h.Process]++
		c.Waits = append(c.Waits, micros(h.Got.Sub(h.Asked)))
	}
	for _, n := range c.Clients {
		if n == 0 {
			c.Starved++
		}
	}
	return c
}

// contend is the worker's part.
func (l *laborer) contend(o order) (answer, error) {
	end := o.Begin.Add(o.For)
	ctx, cancel := context.WithTimeout(l.ctx, end.Sub(history.Now())+o.Grace)
	defer cancel()
	holds, errs := make([][]hold, o.Goroutines), make([]error, o.Goroutines)
	var all sync.WaitGroup
	a := answer{Before: usageNow(false)}
	for i := range o.Goroutines {
		all.Go(func() {
			time.Sleep(o.Begin.Sub(history.Now()))
			for asked := history.Now(); asked < end; asked = history.Now() {
				release, err := l.locker.Acquire(ctx, o.Name, true)
				got := history.Now()
				if err != nil {
					if ctx.Err() == nil {
						errs[i] = err
					}
					holds[i] = append(holds[i], hold{Client: int64(i), Asked: asked})
					return
				}
				ended := history.Now()
				if errs[i] = release(context.Background()); errs[i] != nil {
					return
				}
				holds[i] = append(holds[i], hold{Client: int64(i), Asked: asked, Got: got, Ended: ended})
			}
		})
	}
	all.Wait()
	a.After = usageNow(false)
	a.Packed = worker.Pack(holds...)
	return a, worker.First(errs)
}
