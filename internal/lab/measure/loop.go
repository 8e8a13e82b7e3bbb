package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/worker"
)

const (
	warmCycles   = 2                     // of each goroutine, before the measured ones
	firstCycles  = 20                    // of a new worker, which connects and loads its scripts
	fewestCycles = 5                     // measured however long they take: the median of one is chance
	startTime    = 50 * time.Millisecond // the most it takes to tell all processes when to begin
)

// Cycle measures N goroutines of one process that acquire and release their own names, or a name that they share, without contention.
func Cycle(ctx context.Context, s Scenario, on *Subject, _ int) ([]Figure, error) {
	o := order{Do: "loop", Name: on.Locks, Own: !s.Shared, Goroutines: s.N, Warm: warmCycles, Fewest: fewestCycles, Most: firstCycles, For: s.For, Try: on.Try}
	if err := on.start(ctx, 1, func() error { _, err := on.workers[0].Ask(ctx, o); return err }); err != nil {
		return nil, err
	}
	o.Most = s.Samples / s.N
	a, err := on.workers[0].Ask(ctx, o)
	if err != nil {
		return nil, err
	}
	var acquires, releases, both []float64
	for _, h := range unpack[hold](a.Packed) {
		acquire, release := micros(h.Got.Sub(h.Asked)), micros(h.Done.Sub(h.Ended))
		acquires, releases, both = append(acquires, acquire), append(releases, release), append(both, acquire+release)
	}
	on.keep("acquire", acquires)
	on.keep("release", releases)
	return append(latencies(both), figure("cycles", "/s", float64(len(both))/a.Took.Seconds())), nil
}

// latencies summarises times, which are in microseconds.
func latencies(times []float64) []Figure {
	q := report.QuantilesOf(times)
	return []Figure{figure("p50", "µs", q.P50), figure("p99", "µs", q.P99)}
}

// Contend measures N goroutines, spread over processes, that acquire and release one name as fast as they can. At the end, each completes the hold
// that it asked for. After Grace, all waits are canceled.
func Contend(ctx context.Context, s Scenario, on *Subject, turn int) ([]Figure, error) {
	connect := func() error { _, err := contend(ctx, s, on, on.Locks+"-first", s.For/3); return err }
	if err := on.start(ctx, s.Processes, connect); err != nil {
		return nil, err
	}
	c, err := contend(ctx, s, on, fmt.Sprint(on.Locks, "-", turn), s.For)
	if err == nil && c.changes == 0 {
		err = errors.New("nobody acquired the lock")
	}
	if err != nil {
		return nil, err
	}
	return []Figure{
		figure("hand-offs", "/s", float64(c.changes)/s.For.Seconds()),
		figure("starved", "goroutines", float64(c.starved)),
		figure("overlaps", "holds", float64(c.overlaps)),
		figure("largest to smallest share", "×", shares(c.clients)),
		figure("largest to smallest share of processes", "×", shares(c.processes)),
	}, nil
}

// shares returns the ratio of the largest count to the smallest, which counts as at least one.
func shares(counts []int) float64 {
	return float64(slices.Max(counts)) / float64(max(1, slices.Min(counts)))
}

func contend(ctx context.Context, s Scenario, on *Subject, name string, long time.Duration) (contention, error) {
	begin, each := history.Now().Add(startTime), s.N/len(on.workers)
	answers := make([]answer, len(on.workers))
	errs := worker.AtOnce(on.workers, func(i int, h *worker.Handle[order, answer]) (err error) {
		answers[i], err = h.Ask(ctx, order{Do: "loop", Name: name, Goroutines: each, Begin: begin, For: long, Grace: s.Grace})
		return err
	})
	var holds []hold
	for i, a := range answers {
		for _, h := range unpack[hold](a.Packed) {
			h.Client, h.Process = h.Client+int64(i*each), int64(i)
			holds = append(holds, h)
		}
	}
	return judge(holds, s.N, len(answers), begin.Add(long)), cmp.Or(errs...)
}

// hold is one hold. Its holder believed in it from Got until Ended. If it was never granted, both are 0.
type hold struct {
	Client, Process int64
	Asked           history.Instant // Acquire is about to be called
	Got             history.Instant // Acquire had returned
	Ended           history.Instant // Release is about to be called
	Done            history.Instant // Release had returned
}

// contention describes how many goroutines shared one name.
type contention struct {
	changes  int // holds by another goroutine than the previous one
	starved  int // goroutines without a hold
	overlaps int // holds that began before an earlier one ended: none in a correct lock
	// clients and processes count the holds of each goroutine and of each process that began in time.
	clients, processes []int
}

// judge evaluates all holds. Release is called before the server can grant the lock again, so holds of a correct lock do not overlap.
func judge(all []hold, clients, processes int, end history.Instant) contention {
	c := contention{clients: make([]int, clients), processes: make([]int, processes)}
	slices.SortFunc(all, func(a, b hold) int { return cmp.Or(cmp.Compare(a.Got, b.Got), cmp.Compare(a.Ended, b.Ended)) })
	until, last := history.Instant(0), int64(-1)
	for _, h := range all {
		if h.Got == 0 {
			continue
		}
		if h.Got < until {
			c.overlaps++
		}
		until = max(until, h.Ended)
		if h.Got >= end {
			continue
		}
		if h.Client != last {
			c.changes++
		}
		last = h.Client
		c.clients[h.Client]++
		c.processes[h.Process]++
	}
	for _, n := range c.clients {
		if n == 0 {
			c.starved++
		}
	}
	return c
}

// loop is the worker's part. Records of cycles are allocated beforehand, so as not to cost time. Each goroutine's calls have a context that can be
// canceled, as a service's requests have. It has no deadline, which costs some libraries more: only Grace bounds waits.
func (m *measurer) loop(o order) (answer, error) {
	var bounded context.Context // of waits, with Grace
	var start, end history.Instant
	once := func(i int, waits, calls context.Context) (h hold, err error) {
		name := o.Name
		if o.Own {
			name = fmt.Sprint(name, "-", i)
		}
		h = hold{Client: int64(i), Asked: history.Now()}
		release, err := m.take(waits, name, !o.Try)
		if err != nil {
			return h, err
		}
		h.Got = history.Now()
		if o.Most == 0 { // contention
			runtime.Gosched() // lets a second holder run now, if there is one: otherwise overlaps would be seen only by chance
		}
		h.Ended = history.Now()
		err = release(calls)
		h.Done = history.Now()
		return h, err
	}
	holds, errs := make([][]hold, o.Goroutines), make([]error, o.Goroutines)
	var ready, all sync.WaitGroup
	begin := make(chan struct{})
	for i := range o.Goroutines {
		holds[i] = make([]hold, 0, o.Most)
		ready.Add(1)
		all.Go(func() {
			calls, cancel := context.WithCancel(context.Background())
			defer cancel()
			for n := 0; errs[i] == nil && n < o.Warm; n++ { // so that all are connected before the measurement
				_, errs[i] = once(i, calls, calls)
			}
			ready.Done()
			<-begin
			waits := cmp.Or(bounded, calls)
			time.Sleep(start.Sub(history.Now()))
			for n := 0; errs[i] == nil && m.ctx.Err() == nil && (o.Most == 0 || n < o.Most) && (n < o.Fewest || history.Now() < end); n++ {
				var h hold
				if h, errs[i] = once(i, waits, calls); waits.Err() != nil && h.Got == 0 {
					errs[i] = nil // not granted in time
				}
				holds[i] = append(holds[i], h)
			}
		})
	}
	ready.Wait()
	start = history.Now()
	if o.Grace > 0 {
		start = o.Begin // the same for all processes
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(m.ctx, start.Sub(history.Now())+o.For+o.Grace)
		defer cancel()
	}
	end = start.Add(o.For)
	close(begin)
	all.Wait()
	return answer{Took: history.Now().Sub(start), Packed: pack(holds...)}, cmp.Or(errs...)
}
